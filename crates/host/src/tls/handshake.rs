//! The handshake on a socket's stream.

use handshake::{Established, Handshake, HandshakeError, begins_record};
use l5p::tls::HEADER_LEN;

use super::{Offload, TlsRole};
use crate::driver::Payload;
use crate::layer5::Outgoing;
use crate::memory::Purpose;
use crate::stream::Stream;
use crate::{CloseReason, SocketError};

/// A handshake under way.
pub(crate) struct Handshaking {
    handshake: Handshake,
    /// What to offload afterwards.
    pub offload: Offload,
    /// Output that memory had no room for.
    unsent: Vec<u8>,
}

/// How far a handshake got.
#[allow(clippy::large_enum_variant)]
pub(crate) enum Progress {
    /// It waits for the peer.
    Waiting,
    /// It waits for memory to answer the peer.
    NoMemory,
    /// Both sides are done: the keys can be taken.
    Done,
    /// There will be no session; the alert for the peer, if it speaks TLS, is queued.
    Failed(CloseReason),
}

impl Handshaking {
    pub fn new(role: TlsRole, offload: Offload) -> Result<Self, SocketError> {
        let handshake = match role {
            TlsRole::Client { config, name } => Handshake::client(config, name),
            TlsRole::Server { config } => Handshake::server(config),
            TlsRole::PskClient { config } => Handshake::psk_client(&config),
            TlsRole::PskServer { config } => Handshake::psk_server(&config),
        };
        let handshake = handshake.map_err(|error| SocketError::TlsConfig(error.to_string()))?;
        Ok(Self {
            handshake,
            offload,
            unsent: Vec::new(),
        })
    }

    /// Feeds what the peer sent, one record at a time, so that none after the handshake is taken; queues the answers.
    pub fn drive(
        &mut self,
        stream: &mut Stream,
        consumed: &mut u32,
        out: &mut Outgoing<'_>,
    ) -> Progress {
        loop {
            if !self.flush(out) {
                return Progress::NoMemory;
            }
            if self.handshake.is_done() {
                return Progress::Done;
            }
            let mut header = [0; HEADER_LEN];
            let there = stream.peek(0, &mut header);
            let len = match begins_record(&header[..there]) {
                true if there < HEADER_LEN => return Progress::Waiting,
                true => HEADER_LEN as u32 + u32::from(u16::from_be_bytes([header[3], header[4]])),
                false => there as u32,
            };
            if stream.len() < len && len <= MAX_RECORD {
                return Progress::Waiting;
            }
            let taken = len.min(stream.len());
            let mut record = vec![0; taken as usize];
            stream.read(&mut record);
            *consumed += taken;
            if let Err(error) = self.handshake.feed(&record) {
                self.flush(out);
                return Progress::Failed(reason(&error));
            }
        }
    }

    /// Why there will be no session when the peer has closed its side by now.
    pub fn closed_by_peer(&self) -> CloseReason {
        reason(&self.handshake.closed_by_peer())
    }

    /// The keys, after [`Progress::Done`].
    pub fn finish(self, out: &mut Outgoing<'_>) -> Result<Established, CloseReason> {
        let mut established = self
            .handshake
            .into_established()
            .map_err(|error| reason(&error))?;
        let output = std::mem::take(&mut established.output);
        if !queue(&output, out) {
            return Err(CloseReason::Device(
                "no memory was left for the end of the TLS handshake".into(),
            ));
        }
        Ok(established)
    }

    /// Queues output; false while memory has no room for it.
    fn flush(&mut self, out: &mut Outgoing<'_>) -> bool {
        loop {
            if !self.unsent.is_empty() {
                if !queue(&self.unsent, out) {
                    return false;
                }
                self.unsent.clear();
            }
            match self.handshake.poll_output() {
                Some(output) => self.unsent = output,
                None => return true,
            }
        }
    }
}

impl std::fmt::Debug for Handshaking {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Handshaking")
            .field("offload", &self.offload)
            .finish_non_exhaustive()
    }
}

/// Longest record of a handshake (RFC 5246 §6.2.3).
const MAX_RECORD: u32 = HEADER_LEN as u32 + (1 << 14) + 2048;
/// Bytes queued in one piece.
const PIECE: usize = 16 << 10;

fn queue(bytes: &[u8], out: &mut Outgoing<'_>) -> bool {
    let mut pieces = Vec::new();
    for piece in bytes.chunks(PIECE) {
        let Some(mut buffer) = out
            .driver
            .take_tail_for(Purpose::Control, piece.len() as u32)
        else {
            return false;
        };
        buffer.copy_from_slice(piece);
        pieces.push(buffer);
    }
    // When nothing more may be sent, there is no one to wait for.
    if out.tcp.queue(out.now, bytes.len() as u32) > 0 {
        for buffer in pieces {
            out.send.push(Payload::plain(buffer));
        }
    }
    true
}

fn reason(error: &HandshakeError) -> CloseReason {
    match error {
        HandshakeError::Failed(rustls::Error::AlertReceived(alert)) => {
            CloseReason::PeerAlert((*alert).into())
        }
        error => CloseReason::Handshake(error.to_string()),
    }
}
