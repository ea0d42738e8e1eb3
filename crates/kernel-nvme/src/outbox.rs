//! PDUs on their way into a socket.

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;

use l5p::crc32c::Crc32c;
use l5p::nvme::initiator::CommandId;
use rustix::io::Errno;
use wire::nvme::{Framing, MAX_HEADER_LEN, Pdu};

use crate::commands::Commands;
use crate::memory::{Memory, Slice};
use crate::socket::{self, Part};

/// Bytes beyond which no further PDU is taken before these are in the socket.
const ENOUGH: u64 = 512 << 10;
/// Room for a header with its digest and the padding behind it: PDO has 8 bits.
const FRONT: usize = 256;
/// Bytes that are in the socket and are kept among others' at most.
const STALE: usize = 64 << 10;
/// Parts given to the kernel at once.
const MOST_PARTS: usize = 64;

/// Data of a PDU to be sent.
#[derive(Clone, Copy, Debug)]
pub(crate) enum PduData<'a> {
    None,
    Bytes(&'a [u8]),
    /// Of a command, which must not change until it is in the socket.
    Memory(CommandId, Slice),
}

/// PDUs that are not wholly in the socket.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    /// Headers, digests and short data.
    own: Vec<u8>,
    pieces: VecDeque<Piece>,
    bytes: u64,
}

#[derive(Clone, Copy, Debug)]
enum Piece {
    /// A part of `own`.
    Own {
        at: usize,
        len: usize,
    },
    Memory(Slice),
    /// Behind the last byte of a command's data.
    Sent(CommandId),
}

impl Outbox {
    pub(crate) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Whether another PDU may be added.
    pub(crate) fn has_room(&self) -> bool {
        self.bytes < ENOUGH
    }

    /// Adds a PDU.
    pub(crate) fn push(
        &mut self,
        pdu: &Pdu,
        data: PduData<'_>,
        framing: &Framing,
        memory: &Memory,
    ) {
        let layout = framing.layout(pdu.pdu_type(), pdu.data_len());
        let start = self.own.len();
        let mut front = [0; FRONT];
        let header_len = pdu.emit(framing, &mut front[..MAX_HEADER_LEN]);
        if layout.header_digest {
            let digest = Crc32c::of(&front[..header_len]).to_le_bytes();
            front[header_len..header_len + digest.len()].copy_from_slice(&digest);
        }
        self.own
            .extend_from_slice(&front[..usize::from(layout.pdo)]);
        let digest = match data {
            PduData::None => None,
            PduData::Bytes(bytes) => {
                self.own.extend_from_slice(bytes);
                Some(Crc32c::of(bytes))
            }
            PduData::Memory(_, slice) => {
                self.add_own(start);
                self.add(Piece::Memory(slice), u64::from(slice.len));
                layout.data_digest.then(|| Crc32c::of(memory.bytes(slice)))
            }
        };
        let behind = match data {
            PduData::Memory(..) => self.own.len(),
            _ => start,
        };
        if let Some(digest) = digest.filter(|_| layout.data_digest) {
            self.own.extend_from_slice(&digest.to_le_bytes());
        }
        self.add_own(behind);
        if let PduData::Memory(command, _) = data {
            self.pieces.push_back(Piece::Sent(command));
        }
    }

    fn add_own(&mut self, at: usize) {
        let len = self.own.len() - at;
        if len == 0 {
            return;
        }
        self.bytes += len as u64;
        match self.pieces.back_mut() {
            Some(Piece::Own {
                at: before,
                len: own,
            }) if *before + *own == at => *own += len,
            _ => self.pieces.push_back(Piece::Own { at, len }),
        }
    }

    fn add(&mut self, piece: Piece, bytes: u64) {
        self.bytes += bytes;
        self.pieces.push_back(piece);
    }

    /// Sends as far as the socket has room. False when it is full.
    pub(crate) fn flush(
        &mut self,
        socket: BorrowedFd<'_>,
        memory: &Memory,
        commands: &mut Commands,
    ) -> Result<bool, Errno> {
        while !self.pieces.is_empty() {
            let mut parts = [Part::of(&[]); MOST_PARTS];
            let mut count = 0;
            for piece in &self.pieces {
                let part = match *piece {
                    Piece::Own { at, len } => Part::of(&self.own[at..at + len]),
                    Piece::Memory(slice) => memory.raw(slice),
                    Piece::Sent(_) => continue,
                };
                if count == MOST_PARTS {
                    break;
                }
                parts[count] = part;
                count += 1;
            }
            #[allow(unsafe_code)]
            // SAFETY: the parts are of `own` and of the mapped memory.
            let sent = match unsafe { socket::send(socket, &parts[..count]) } {
                Ok(sent) => sent,
                Err(Errno::AGAIN) => return Ok(false),
                Err(error) => return Err(error),
            };
            self.advance(sent, commands);
            self.forget_sent();
        }
        Ok(true)
    }

    /// Frees what is in the socket.
    fn forget_sent(&mut self) {
        let own = self.pieces.iter().find_map(|piece| match piece {
            Piece::Own { at, .. } => Some(*at),
            _ => None,
        });
        let Some(stale) = own else {
            self.own.clear();
            return;
        };
        if stale > STALE {
            self.own.drain(..stale);
            for piece in &mut self.pieces {
                if let Piece::Own { at, .. } = piece {
                    *at -= stale;
                }
            }
        }
    }

    fn advance(&mut self, mut sent: usize, commands: &mut Commands) {
        self.bytes -= sent as u64;
        while let Some(piece) = self.pieces.front_mut() {
            let left = match piece {
                Piece::Own { at, len } => {
                    let gone = sent.min(*len);
                    (*at, *len, sent) = (*at + gone, *len - gone, sent - gone);
                    *len
                }
                Piece::Memory(slice) => {
                    let gone = sent.min(slice.len as usize);
                    *slice = slice.part(gone as u32, slice.len - gone as u32);
                    sent -= gone;
                    slice.len as usize
                }
                Piece::Sent(command) => {
                    commands.get_mut(*command).unsent -= 1;
                    0
                }
            };
            if left > 0 {
                return;
            }
            self.pieces.pop_front();
        }
    }

    /// The connection is no more: what was not sent is not sent.
    pub(crate) fn abandon(&mut self, commands: &mut Commands) {
        for piece in self.pieces.drain(..) {
            if let Piece::Sent(command) = piece {
                commands.get_mut(command).unsent -= 1;
            }
        }
    }
}
