//! The program: a handshake, then the C library's functions on a socket with kernel TLS.

use std::fs::File;
use std::io::{Error, ErrorKind, Read, Result, Write};
use std::net::TcpStream;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use handshake::{Certificate, Handshake, Options, Trust, client_config, server_config};
use l5p::tls::{
    Algorithm, ContentType, CryptoInfo, Event, HEADER_LEN, KeyUpdate, PostHandshake, Version,
};

use crate::case::{Case, Random};
use crate::rig::{self, PEER, PORT, TIMEOUT};
use crate::sockets::{
    ALERT, DATA, HANDSHAKE, SOL_TLS, TLS_RX, TLS_TX, recv, recv_record, send, send_control,
    send_record, set, ulp,
};
use crate::stream::Stream;

/// `TLS_SET_RECORD_TYPE`.
const SET_RECORD_TYPE: i32 = 1;
const CLOSE_NOTIFY: [u8; 2] = [1, 0];

pub fn main() -> ExitCode {
    let mut failed = false;
    for case in rig::cases() {
        match run(&case) {
            Ok(()) => println!("ok - {}, {case}", rig::wire_name()),
            Err(error) => {
                failed = true;
                println!("not ok - {}, {case}: {error}", rig::wire_name());
            }
        }
    }
    ExitCode::from(u8::from(failed))
}

/// Connects to the peer. While the NIC is away Linux does not reach it.
fn connect() -> Result<TcpStream> {
    let end = Instant::now() + TIMEOUT;
    loop {
        match TcpStream::connect((PEER, PORT)) {
            Err(error) if error.kind() == ErrorKind::HostUnreachable && Instant::now() < end => {
                std::thread::sleep(Duration::from_millis(10));
            }
            connected => return connected,
        }
    }
}

fn run(case: &Case) -> std::result::Result<(), String> {
    let socket = connect().map_err(|error| format!("connect: {error}"))?;
    let mut program = Program::new(case, &socket)?;
    let end = Instant::now() + TIMEOUT;
    let mut kill_at = rig::is_dying().then(|| program.random.below(case.bytes.0 + case.bytes.1));
    while !(program.has_ended && program.is_closed) {
        if kill_at.is_some_and(|at| program.sent + program.received >= at) {
            kill_at = None;
            println!("{}", rig::KILL);
        }
        let sent = program
            .send_some()
            .map_err(|error| program.tell("sending", &error))?;
        let received = program
            .receive_some()
            .map_err(|error| program.tell("receiving", &error))?;
        let is_done = program.has_ended && program.is_closed;
        if !(sent || received || is_done) {
            rig::wait(&socket, !program.is_closed, end)
                .map_err(|error| program.tell("waiting", &Error::other(error)))?;
        }
    }
    // A program that leaves before the peer has all leaves a restarted NIC without keys.
    while unacknowledged(&socket) > 0 {
        if Instant::now() > end {
            return Err(program.tell(
                "leaving",
                &Error::other("the peer has not acknowledged all"),
            ));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// Bytes that the peer has not acknowledged.
fn unacknowledged(socket: &TcpStream) -> i32 {
    let mut bytes = 0;
    // SAFETY: the request writes an `int`.
    let asked = unsafe { libc::ioctl(socket.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
    if asked == 0 { bytes } else { 0 }
}

/// What Linux knows of the connection.
fn linux_says() -> String {
    let mut ss = std::process::Command::new("ss");
    let said = ss.env_remove("LD_PRELOAD").arg("-Htinoe").output();
    said.map_or_else(
        |error| format!("ss: {error}"),
        |said| String::from_utf8_lossy(&said.stdout).replace('\n', " "),
    )
}

struct Program<'a> {
    case: &'a Case,
    fd: RawFd,
    random: Random,
    ours: Stream,
    theirs: Stream,
    post_handshake: PostHandshake,
    records: u64,
    /// All of our stream, for `sendfile`.
    file: File,
    pipe: (OwnedFd, OwnedFd),
    /// Bytes that are in the pipe.
    piped: usize,
    sent: usize,
    received: usize,
    /// The peer wants us to have new keys.
    owes_update: bool,
    /// One of ours that found no room.
    update: Option<KeyUpdate>,
    /// We have said that nothing more comes; the peer has.
    is_closed: bool,
    has_ended: bool,
    /// What was peeked at.
    peeked: Vec<u8>,
}

impl<'a> Program<'a> {
    fn new(case: &'a Case, socket: &TcpStream) -> std::result::Result<Program<'a>, String> {
        let error = |error: Error| format!("handshake: {error}");
        let (transmit, receive, post_handshake) = shake_hands(case, socket).map_err(error)?;
        let fd = socket.as_raw_fd();
        let ours = rig::from_program(case);
        let file = rustix::fs::memfd_create("stream", rustix::fs::MemfdFlags::CLOEXEC);
        let mut file = File::from(file.expect("memory"));
        file.write_all(&ours.bytes(0, case.bytes.0))
            .expect("memory");
        let mut random = Random::new(case.seed);
        let set_up = || {
            ulp(fd)?;
            set(fd, SOL_TLS, TLS_TX, &kernels(&transmit))?;
            set(fd, SOL_TLS, TLS_RX, &kernels(&receive))?;
            socket.set_nonblocking(true)?;
            Ok(())
        };
        set_up().map_err(|error: Error| format!("kernel TLS: {error}"))?;
        if random.once_in(2) {
            // TLS_TX_ZEROCOPY_RO
            let _ = set(fd, SOL_TLS, 3, &1_i32.to_ne_bytes());
        }
        Ok(Program {
            case,
            fd,
            random,
            ours,
            theirs: rig::from_peer(case),
            post_handshake,
            records: 0,
            file,
            pipe: rustix::pipe::pipe().expect("a pipe"),
            piped: 0,
            sent: 0,
            received: 0,
            owes_update: false,
            update: None,
            is_closed: false,
            has_ended: false,
            peeked: Vec::new(),
        })
    }

    fn tell(&self, what: &str, error: &Error) -> String {
        let Program { sent, received, .. } = self;
        let (closed, ended) = (self.is_closed, self.has_ended);
        let linux = linux_says();
        format!(
            "{what}: {error}; sent {sent}, received {received}, closed {closed}, ended {ended}; {linux}"
        )
    }

    /// One call of any kind; true if something came of it.
    fn send_some(&mut self) -> Result<bool> {
        if self.is_closed {
            return Ok(false);
        }
        let left = self.case.bytes.0 - self.sent;
        if self.piped == 0 {
            let is_own_idea = self.case.updates_keys && left > 0 && self.random.once_in(16);
            if self.update.is_some() || self.owes_update || is_own_idea {
                return self.update_keys();
            }
        }
        if left == 0 {
            return self.close();
        }
        let sent = match self.piped {
            0 => self.send_new(left),
            _ => self.send_piped(),
        };
        match sent {
            Ok(bytes) => {
                self.sent += bytes;
                Ok(bytes > 0)
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn send_new(&mut self, left: usize) -> Result<usize> {
        let len = self.random.size(left);
        let bytes = self.ours.bytes(self.sent, len);
        let more = if self.random.once_in(3) {
            libc::MSG_MORE
        } else {
            0
        };
        match self.random.below(6) {
            0 => send(self.fd, &bytes, more),
            1 => {
                // SAFETY: the bytes have this length.
                checked(unsafe { libc::write(self.fd, bytes.as_ptr().cast(), len) })
            }
            2 => {
                let (first, rest) = bytes.split_at(self.random.below(len));
                let (second, third) = rest.split_at(rest.len() / 3);
                let pieces = [first, second, third].map(|piece| libc::iovec {
                    iov_base: piece.as_ptr().cast_mut().cast(),
                    iov_len: piece.len(),
                });
                // SAFETY: three pieces, borrowed for the call, which only reads them.
                checked(unsafe { libc::writev(self.fd, pieces.as_ptr(), 3) })
            }
            3 => send_control(self.fd, &bytes, (SET_RECORD_TYPE, &[DATA]), 0),
            4 => {
                let mut offset = self.sent as libc::off_t;
                let file = self.file.as_raw_fd();
                // SAFETY: descriptors of ours, and a place for the offset.
                checked(unsafe { libc::sendfile(self.fd, file, &mut offset, len) })
            }
            _ => {
                let len = len.min(60_000);
                rustix::io::write(&self.pipe.1, &bytes[..len])?;
                self.piped = len;
                self.send_piped()
            }
        }
    }

    fn send_piped(&mut self) -> Result<usize> {
        let (from, none) = (self.pipe.0.as_raw_fd(), std::ptr::null_mut());
        let flags = libc::SPLICE_F_NONBLOCK;
        // SAFETY: descriptors of ours.
        let sent = unsafe { libc::splice(from, none, self.fd, none, self.piped, flags) };
        let sent = checked(sent)?;
        self.piped -= sent;
        Ok(sent)
    }

    /// Sends a key update, and has what follows go under the new keys.
    fn update_keys(&mut self) -> Result<bool> {
        let update = match self.update.take() {
            Some(made) => made,
            None => {
                let request = self.random.once_in(2);
                self.owes_update = false;
                self.post_handshake
                    .key_update(request)
                    .map_err(Error::other)?
            }
        };
        match send_record(self.fd, HANDSHAKE, &update.message) {
            Ok(bytes) => {
                assert_eq!(bytes, update.message.len(), "a message is taken whole");
                set(self.fd, SOL_TLS, TLS_TX, &kernels(&update.keys))?;
                Ok(true)
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                self.update = Some(update);
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    fn close(&mut self) -> Result<bool> {
        match send_record(self.fd, ALERT, &CLOSE_NOTIFY) {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(error),
        }
        // SAFETY: a socket of ours.
        checked(unsafe { libc::shutdown(self.fd, libc::SHUT_WR) } as isize)?;
        self.is_closed = true;
        Ok(true)
    }

    /// One call of any kind; true if something came of it.
    fn receive_some(&mut self) -> Result<bool> {
        if self.has_ended {
            return Ok(false);
        }
        let room = self.random.size(200_000);
        let how = self.random.below(7);
        let received = match how {
            0 => recv(self.fd, room, 0),
            1 => {
                let mut bytes = vec![0; room];
                // SAFETY: there is room for this length.
                let len = unsafe { libc::read(self.fd, bytes.as_mut_ptr().cast(), room) };
                checked(len).map(|len| bytes[..len].to_vec())
            }
            2 => {
                let mut bytes = vec![0; room];
                let (first, second) = bytes.split_at_mut(room / 3);
                let pieces = [first, second].map(|piece| libc::iovec {
                    iov_base: piece.as_mut_ptr().cast(),
                    iov_len: piece.len(),
                });
                // SAFETY: two pieces, borrowed mutably for the call.
                let len = unsafe { libc::readv(self.fd, pieces.as_ptr(), 2) };
                checked(len).map(|len| bytes[..len].to_vec())
            }
            3 => {
                let peeked = recv(self.fd, room, libc::MSG_PEEK);
                if let Ok(bytes) = &peeked {
                    self.theirs
                        .check(self.received, bytes)
                        .map_err(Error::other)?;
                    self.peeked.clone_from(bytes);
                }
                match peeked {
                    // What was seen must come.
                    Ok(bytes) if !bytes.is_empty() => recv(self.fd, room, 0),
                    other => other,
                }
            }
            4 => self.receive_by_pipe(room),
            // Whole alerts.
            _ => return self.receive_record(room.max(CLOSE_NOTIFY.len())),
        };
        match received {
            Ok(bytes) if bytes.is_empty() => Err(Error::other("an end without an alert")),
            Ok(bytes) => {
                if how == 3
                    && !bytes.starts_with(&self.peeked[..self.peeked.len().min(bytes.len())])
                {
                    return Err(Error::other("other bytes than were peeked at"));
                }
                self.take(&bytes)
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(false),
            // Something else than application data.
            Err(error) if is_control(&error) => self.receive_record(20_000),
            Err(error) => Err(error),
        }
    }

    /// By `splice` into the pipe, which has nothing of ours in it.
    fn receive_by_pipe(&mut self, room: usize) -> Result<Vec<u8>> {
        if self.piped > 0 {
            return recv(self.fd, room, 0);
        }
        let (to, none) = (self.pipe.1.as_raw_fd(), std::ptr::null_mut());
        let flags = libc::SPLICE_F_NONBLOCK;
        // SAFETY: descriptors of ours.
        let moved = unsafe { libc::splice(self.fd, none, to, none, room, flags) };
        let mut bytes = vec![0; checked(moved)?];
        let mut got = 0;
        while got < bytes.len() {
            got += rustix::io::read(&self.pipe.0, &mut bytes[got..])?;
        }
        Ok(bytes)
    }

    fn receive_record(&mut self, room: usize) -> Result<bool> {
        let (bytes, kind, _) = match recv_record(self.fd, room, 0) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
            other => other?,
        };
        match kind {
            _ if bytes.is_empty() => Err(Error::other("an end without an alert")),
            Some(DATA) => self.take(&bytes),
            Some(HANDSHAKE) => self.handle(ContentType::HANDSHAKE, &bytes),
            Some(ALERT) if bytes == CLOSE_NOTIFY => {
                self.has_ended = true;
                match self.received == self.case.bytes.1 {
                    true => Ok(true),
                    false => Err(Error::other("the stream has ended early")),
                }
            }
            other => Err(Error::other(format!(
                "a record of type {other:?}: {bytes:?}"
            ))),
        }
    }

    fn take(&mut self, bytes: &[u8]) -> Result<bool> {
        self.theirs
            .check(self.received, bytes)
            .map_err(Error::other)?;
        self.received += bytes.len();
        self.handle(ContentType::APPLICATION_DATA, bytes)
    }

    fn handle(&mut self, content_type: ContentType, bytes: &[u8]) -> Result<bool> {
        self.records += 1;
        let handled = self
            .post_handshake
            .handle_record(self.records, content_type, [bytes]);
        handled.map_err(Error::other)?;
        while let Some(event) = self.post_handshake.poll_event() {
            match event {
                Event::ReceiveKeys(keys) => set(self.fd, SOL_TLS, TLS_RX, &kernels(&keys))?,
                Event::KeyUpdateRequested => self.owes_update = !self.is_closed,
                Event::Ticket => {}
                other => return Err(Error::other(format!("{other:?}"))),
            }
        }
        Ok(true)
    }
}

/// The keys of both directions, and what makes the next ones. Not a byte behind the handshake is read.
fn shake_hands(
    case: &Case,
    mut socket: &TcpStream,
) -> Result<(CryptoInfo, CryptoInfo, PostHandshake)> {
    let options = Options {
        versions: vec![case.version],
        algorithms: vec![case.algorithm],
        ..Options::default()
    };
    let mut handshake = if case.program_is_client {
        let config = client_config(Trust::Anyone, &options).map_err(Error::other)?;
        let name = "peer".try_into().map_err(Error::other)?;
        Handshake::client(config, name).map_err(Error::other)?
    } else {
        let read = |name: &str| std::fs::read(rig::directory().join(name));
        let certificate = Certificate::from_pem(&read("leaf.pem")?, &read("leaf.key")?);
        let certificate = certificate.map_err(Error::other)?;
        let config = server_config(certificate, &options).map_err(Error::other)?;
        Handshake::server(config).map_err(Error::other)?
    };
    loop {
        while let Some(output) = handshake.poll_output() {
            socket.write_all(&output)?;
        }
        if handshake.is_done() {
            break;
        }
        let mut record = vec![0; HEADER_LEN];
        socket.read_exact(&mut record)?;
        let len = usize::from(u16::from_be_bytes([record[3], record[4]]));
        record.resize(HEADER_LEN + len, 0);
        socket.read_exact(&mut record[HEADER_LEN..])?;
        handshake.feed(&record).map_err(Error::other)?;
    }
    let established = handshake.into_established().map_err(Error::other)?;
    assert!(
        established.leftover.is_empty(),
        "records were read one by one"
    );
    socket.write_all(&established.output)?;
    Ok((
        established.transmit,
        established.receive,
        established.post_handshake,
    ))
}

/// Keys as the kernel's structures have them.
fn kernels(info: &CryptoInfo) -> Vec<u8> {
    let version: u16 = match info.version {
        Version::Tls12 => 0x0303,
        Version::Tls13 => 0x0304,
    };
    let (cipher, salt): (u16, usize) = match info.algorithm {
        Algorithm::Aes128Gcm => (51, 4),
        Algorithm::Aes256Gcm => (52, 4),
        Algorithm::ChaCha20Poly1305 => (54, 0),
    };
    let mut bytes = Vec::new();
    bytes.extend(version.to_ne_bytes());
    bytes.extend(cipher.to_ne_bytes());
    bytes.extend(&info.iv[salt..]);
    bytes.extend(info.key());
    bytes.extend(&info.iv[..salt]);
    bytes.extend(info.sequence.to_be_bytes());
    bytes
}

fn checked(result: isize) -> Result<usize> {
    usize::try_from(result).map_err(|_| Error::last_os_error())
}

/// Whether a call has come to a record of another type than data: `splice` has an error of its own for it.
fn is_control(error: &Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EIO | libc::EINVAL))
}
