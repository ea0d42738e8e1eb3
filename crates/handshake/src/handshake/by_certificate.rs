//! The handshake with certificates, by rustls.

use std::sync::Arc;

use l5p::tls::{
    Algorithm, CryptoInfo, HEADER_LEN, KeySchedule, KeyScheduleError, PostHandshake, Version,
};
use rustls::client::{ClientConnectionData, UnbufferedClientConnection};
use rustls::kernel::KernelConnection;
use rustls::server::{ServerConnectionData, UnbufferedServerConnection};
use rustls::unbuffered::{ConnectionState, EncodeError, UnbufferedStatus};
use rustls::{
    ClientConfig, CommonState, ConnectionTrafficSecrets, ExtractedSecrets, HandshakeKind,
    ProtocolVersion, ServerConfig, Side,
};
use rustls_pki_types::ServerName;

use super::{Established, HandshakeError, first_record};

/// See [`Handshake`](super::Handshake).
pub struct ByCertificate {
    connection: Connection,
    /// From the peer and not yet done with.
    incoming: Vec<u8>,
    /// How much of `incoming` rustls has been shown: whole records, one at a time, so that none
    /// after the handshake reaches it.
    shown: usize,
    /// The peer has sent a record.
    speaks_tls: bool,
    outgoing: Vec<u8>,
    ready: bool,
    failed: Option<HandshakeError>,
}

enum Connection {
    Client(Box<UnbufferedClientConnection>),
    Server(Box<UnbufferedServerConnection>),
}

/// What rustls wants next.
enum Step {
    Again,
    Blocked,
    Traffic,
}

impl ByCertificate {
    /// The client's side with a server called `name`. It has output at once.
    ///
    /// # Errors
    /// When the configuration cannot work, for instance for want of a cipher suite.
    pub fn client(
        config: Arc<ClientConfig>,
        name: ServerName<'static>,
    ) -> Result<ByCertificate, HandshakeError> {
        let connection = UnbufferedClientConnection::new(config, name)?;
        ByCertificate::begin(Connection::Client(Box::new(connection)))
    }

    /// The server's side.
    ///
    /// # Errors
    /// When the configuration cannot work.
    pub fn server(config: Arc<ServerConfig>) -> Result<ByCertificate, HandshakeError> {
        let connection = UnbufferedServerConnection::new(config)?;
        ByCertificate::begin(Connection::Server(Box::new(connection)))
    }

    fn begin(connection: Connection) -> Result<ByCertificate, HandshakeError> {
        let mut handshake = ByCertificate {
            connection,
            incoming: Vec::new(),
            shown: 0,
            speaks_tls: false,
            outgoing: Vec::new(),
            ready: false,
            failed: None,
        };
        handshake.run()?;
        Ok(handshake)
    }

    /// Takes the next bytes from the peer, in pieces of any size.
    ///
    /// # Errors
    /// As [`Handshake::feed`](super::Handshake::feed).
    pub fn feed(&mut self, bytes: &[u8]) -> Result<(), HandshakeError> {
        if let Some(failed) = &self.failed {
            return Err(failed.clone());
        }
        self.incoming.extend_from_slice(bytes);
        if !self.ready {
            self.run()?;
        }
        Ok(())
    }

    /// Bytes for the peer, `None` when there are none.
    pub fn poll_output(&mut self) -> Option<Vec<u8>> {
        (!self.outgoing.is_empty()).then(|| std::mem::take(&mut self.outgoing))
    }

    /// Whether both sides have finished.
    pub fn is_done(&self) -> bool {
        self.ready
    }

    /// Takes the keys, and what came after the handshake.
    ///
    /// # Errors
    /// When the handshake is not complete, or rustls does not give its secrets because the
    /// configuration lacks `enable_secret_extraction`.
    pub fn into_established(self) -> Result<Established, HandshakeError> {
        if !self.ready {
            return Err(self.failed.unwrap_or(HandshakeError::NotComplete));
        }
        let common = self.connection.common();
        let version = match common.protocol_version() {
            Some(ProtocolVersion::TLSv1_3) => Version::Tls13,
            Some(ProtocolVersion::TLSv1_2) => Version::Tls12,
            other => return Err(HandshakeError::Unsupported(format!("{other:?}"))),
        };
        let alpn = common.alpn_protocol().map(<[u8]>::to_vec);
        let resumed = common.handshake_kind() == Some(HandshakeKind::Resumed);
        let suite = common
            .negotiated_cipher_suite()
            .and_then(|suite| suite.suite().as_str())
            .unwrap_or("unknown")
            .to_owned();
        let (secrets, keys): (_, Box<dyn KeySchedule>) = match self.connection {
            Connection::Client(connection) => {
                let (secrets, kernel) = connection.dangerous_into_kernel_connection()?;
                (secrets, Box::new(ClientKeys { version, kernel }))
            }
            Connection::Server(connection) => {
                let (secrets, kernel) = connection.dangerous_into_kernel_connection()?;
                (secrets, Box::new(ServerKeys { version, kernel }))
            }
        };
        let ExtractedSecrets { tx, rx } = secrets;
        Ok(Established {
            transmit: crypto_info(version, tx)?,
            receive: crypto_info(version, rx)?,
            alpn,
            suite,
            resumed,
            leftover: self.incoming,
            output: self.outgoing,
            post_handshake: PostHandshake::new(version, keys),
            psk_identity: None,
        })
    }

    /// Which side we are.
    pub fn side(&self) -> Side {
        match self.connection {
            Connection::Client(_) => Side::Client,
            Connection::Server(_) => Side::Server,
        }
    }

    fn run(&mut self) -> Result<(), HandshakeError> {
        let run = self.run_until_blocked();
        if let Err(error) = &run {
            self.failed = Some(error.clone());
            self.collect_alert();
        }
        run
    }

    fn run_until_blocked(&mut self) -> Result<(), HandshakeError> {
        loop {
            match self.step()? {
                Step::Again => {}
                Step::Traffic if !self.connection.common().is_handshaking() => {
                    self.ready = true;
                    return Ok(());
                }
                Step::Traffic | Step::Blocked => {
                    if !self.show_record()? {
                        return Ok(());
                    }
                }
            }
        }
    }

    fn step(&mut self) -> Result<Step, HandshakeError> {
        let shown = &mut self.incoming[..self.shown];
        let (discard, step) = match &mut self.connection {
            Connection::Client(connection) => {
                take(connection.process_tls_records(shown), &mut self.outgoing)
            }
            Connection::Server(connection) => {
                take(connection.process_tls_records(shown), &mut self.outgoing)
            }
        };
        self.incoming.drain(..discard);
        self.shown -= discard;
        step
    }

    /// Shows rustls one record more, if a whole one is there.
    fn show_record(&mut self) -> Result<bool, HandshakeError> {
        let record = first_record(&self.incoming[self.shown..]);
        if record.is_err() && self.speaks_tls {
            // It has the keys for the alert: it gives one when it is shown the header, whatever else there is.
            self.shown += HEADER_LEN;
            self.incoming.resize(self.shown, 0);
            let _ = self.step();
        }
        let len = record?;
        self.shown += len.unwrap_or(0);
        self.speaks_tls |= len.is_some();
        Ok(len.is_some())
    }

    /// What rustls queued for the peer when it failed. It gives that before it looks at any input,
    /// which it must not see again.
    fn collect_alert(&mut self) {
        while self.connection.common().wants_write() {
            if self.step().is_err() {
                return;
            }
        }
    }
}

impl Connection {
    fn common(&self) -> &CommonState {
        match self {
            Connection::Client(connection) => connection,
            Connection::Server(connection) => connection,
        }
    }
}

/// Takes output from one state of rustls. Returns how many bytes it is done with, and what next.
fn take<Data>(
    status: UnbufferedStatus<'_, '_, Data>,
    outgoing: &mut Vec<u8>,
) -> (usize, Result<Step, HandshakeError>) {
    let step = match status.state {
        Ok(ConnectionState::EncodeTlsData(mut data)) => {
            let at = outgoing.len();
            if let Err(EncodeError::InsufficientSize(needs)) = data.encode(&mut []) {
                outgoing.resize(at + needs.required_size, 0);
                let written = data.encode(&mut outgoing[at..]).unwrap_or(0);
                outgoing.truncate(at + written);
            }
            Ok(Step::Again)
        }
        Ok(ConnectionState::TransmitTlsData(data)) => {
            data.done();
            Ok(Step::Again)
        }
        Ok(ConnectionState::BlockedHandshake) => Ok(Step::Blocked),
        Ok(ConnectionState::WriteTraffic(_)) => Ok(Step::Traffic),
        Ok(ConnectionState::PeerClosed | ConnectionState::Closed) => Err(HandshakeError::Closed),
        Ok(_) => Err(HandshakeError::NotComplete),
        Err(error) => Err(error.into()),
    };
    (status.discard, step)
}

/// What a client keeps for key updates and tickets.
struct ClientKeys {
    version: Version,
    kernel: KernelConnection<ClientConnectionData>,
}

impl KeySchedule for ClientKeys {
    fn is_client(&self) -> bool {
        true
    }

    fn update_transmit(&mut self) -> Result<CryptoInfo, KeyScheduleError> {
        updated(self.version, self.kernel.update_tx_secret())
    }

    fn update_receive(&mut self) -> Result<CryptoInfo, KeyScheduleError> {
        updated(self.version, self.kernel.update_rx_secret())
    }

    fn store_ticket(&mut self, body: &[u8]) -> Result<bool, KeyScheduleError> {
        let stored = self.kernel.handle_new_session_ticket(body);
        stored.map(|()| true).map_err(refused)
    }
}

/// What a server keeps for key updates.
struct ServerKeys {
    version: Version,
    kernel: KernelConnection<ServerConnectionData>,
}

impl KeySchedule for ServerKeys {
    fn is_client(&self) -> bool {
        false
    }

    fn update_transmit(&mut self) -> Result<CryptoInfo, KeyScheduleError> {
        updated(self.version, self.kernel.update_tx_secret())
    }

    fn update_receive(&mut self) -> Result<CryptoInfo, KeyScheduleError> {
        updated(self.version, self.kernel.update_rx_secret())
    }

    fn store_ticket(&mut self, _body: &[u8]) -> Result<bool, KeyScheduleError> {
        Ok(false)
    }
}

fn updated(
    version: Version,
    secrets: Result<(u64, ConnectionTrafficSecrets), rustls::Error>,
) -> Result<CryptoInfo, KeyScheduleError> {
    crypto_info(version, secrets.map_err(refused)?).map_err(refused)
}

fn refused(error: impl std::fmt::Display) -> KeyScheduleError {
    KeyScheduleError::Refused(error.to_string())
}

/// Our form of rustls's secrets.
fn crypto_info(
    version: Version,
    (sequence, secrets): (u64, ConnectionTrafficSecrets),
) -> Result<CryptoInfo, HandshakeError> {
    let (algorithm, key, iv) = match secrets {
        ConnectionTrafficSecrets::Aes128Gcm { key, iv } => (Algorithm::Aes128Gcm, key, iv),
        ConnectionTrafficSecrets::Aes256Gcm { key, iv } => (Algorithm::Aes256Gcm, key, iv),
        ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } => {
            (Algorithm::ChaCha20Poly1305, key, iv)
        }
        _ => return Err(HandshakeError::Unsupported("a new kind of cipher".into())),
    };
    let mut info = CryptoInfo {
        version,
        algorithm,
        key: [0; 32],
        iv: [0; 12],
        sequence,
    };
    info.key[..key.as_ref().len()].copy_from_slice(key.as_ref());
    info.iv.copy_from_slice(iv.as_ref());
    Ok(info)
}
