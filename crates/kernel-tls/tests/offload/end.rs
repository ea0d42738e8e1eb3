//! A sending socket, and the peer that takes all that comes.

use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use attachment::{CryptoInfo, Direction, OffloadState};
use kernel_tls::{Errno, RECORD_TYPE_DATA, Session, TLS_TX};
use l5p::tls::{Algorithm, Output, Piece, Reader, Version};

use crate::{linux, nic};

pub const CASES: [(u16, u16); 4] = [(0x0303, 51), (0x0303, 54), (0x0304, 52), (0x0304, 54)];

/// Keys of a case.
pub fn keys((version, cipher): (u16, u16), key: u8, number: u64) -> Vec<u8> {
    crate::keys::keys(version, cipher, key, number)
}

pub struct Sender {
    pub socket: TcpStream,
    pub session: Arc<Session>,
    pub cookie: u64,
}

/// What the peer has received at the end of the stream.
pub type Received = JoinHandle<Vec<u8>>;

/// What `keys((0x0304, 51), key, sequence)` means.
pub fn info(key: u8, sequence: u64) -> CryptoInfo {
    let secret = |at: std::ops::Range<u8>| at.map(move |at| at ^ key);
    let mut info = CryptoInfo {
        version: Version::Tls13,
        algorithm: Algorithm::Aes128Gcm,
        key: [0; 32],
        iv: [0; 12],
        sequence,
    };
    for (to, from) in info.iv[4..].iter_mut().zip(secret(0..8)) {
        *to = from;
    }
    for (to, from) in info.key.iter_mut().zip(secret(8..24)) {
        *to = from;
    }
    for (to, from) in info.iv.iter_mut().zip(secret(24..28)) {
        *to = from;
    }
    info
}

/// A connection without keys. The peer takes its time.
pub fn connect() -> (Sender, Received) {
    let (sender, peer) = connect_unread();
    (sender, read_all(peer))
}

/// Reads what comes, slowly.
pub fn read_all(mut peer: TcpStream) -> Received {
    thread::spawn(move || {
        let (mut all, mut part) = (Vec::new(), [0; 50_000]);
        loop {
            match peer.read(&mut part) {
                Ok(0) | Err(_) => return all,
                Ok(bytes) => all.extend_from_slice(&part[..bytes]),
            }
            thread::yield_now();
        }
    })
}

/// A connection without keys, whose peer reads nothing yet.
pub fn connect_unread() -> (Sender, TcpStream) {
    nic::start();
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
    // The window is of the listener's choice.
    rustix::net::sockopt::set_socket_recv_buffer_size(&listener, 16 << 10).expect("a buffer");
    let socket = TcpStream::connect(listener.local_addr().unwrap()).expect("loopback");
    let (peer, _) = listener.accept().expect("loopback");
    rustix::net::sockopt::set_socket_send_buffer_size(&socket, 64 << 10).expect("a buffer");
    socket.set_nodelay(true).expect("a TCP socket");
    let session = Arc::new(Session::new(socket.as_fd()).expect("an established socket"));
    let cookie = linux::cookie(&socket);
    let sender = Sender {
        socket,
        session,
        cookie,
    };
    (sender, peer)
}

/// Bytes that are not like each other.
pub fn pattern(len: usize) -> Vec<u8> {
    (0..len as u32)
        .map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect()
}

impl Sender {
    pub fn set_keys(&self, keys: &[u8]) {
        self.try_set_keys(keys).expect("keys");
    }

    pub fn try_set_keys(&self, keys: &[u8]) -> Result<(), Errno> {
        self.session.set_option(self.socket.as_fd(), TLS_TX, keys)
    }

    pub fn send(&self, data: &[u8], record_type: u8, flags: i32) -> Result<usize, Errno> {
        self.session
            .send(self.socket.as_fd(), &[data], record_type, flags)
    }

    /// Sends all of it, however often it takes.
    pub fn send_all(&self, mut data: &[u8], record_type: u8, flags: i32) {
        while !data.is_empty() {
            match self.send(data, record_type, flags) {
                Ok(sent) => data = &data[sent..],
                Err(Errno::AGAIN) => thread::yield_now(),
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// Closes the socket once all is sent.
    pub fn close(self) -> u64 {
        self.session.finish(self.socket.as_fd());
        self.session.wait_until_sent(self.socket.as_fd());
        self.cookie
    }
}

/// A record as the peer has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub record_type: u8,
    pub content: Vec<u8>,
}

/// Reads a stream as it leaves the socket: framed content where the NIC had keys, records where it had not. `software` are the keys with which the
/// library began to make them itself, if it did: the NIC's last, or others.
pub fn records(cookie: u64, stream: &[u8], software: Option<CryptoInfo>) -> Vec<Record> {
    let key_changes = nic::flow(cookie).key_changes;
    let mut records = Vec::new();
    let mut number = 0;
    let mut at = 0;
    if key_changes.first().is_none_or(|first| first.offset > 0) {
        let end = key_changes
            .first()
            .map_or(stream.len(), |change| change.offset as usize);
        opened(
            &stream[..end],
            software.clone().expect("keys"),
            &mut records,
        );
        at = end;
    }
    for (index, change) in key_changes.iter().enumerate() {
        let end = key_changes
            .get(index + 1)
            .map_or(stream.len(), |next| next.offset as usize);
        assert_eq!(
            at as u64, change.offset,
            "the NIC has not been told of all changes"
        );
        match &change.keys {
            Some(info) => {
                number = info.sequence;
                framed(&stream[at..end], info, &mut number, &mut records);
            }
            None => {
                let mut info = software.clone().expect("keys");
                let last = key_changes[..index]
                    .iter()
                    .rev()
                    .find_map(|change| change.keys.as_ref());
                if last.is_some_and(|last| last.key == info.key) {
                    info.sequence = number;
                }
                opened(&stream[at..end], info, &mut records);
            }
        }
        at = end;
    }
    records
}

fn framed(mut stream: &[u8], info: &CryptoInfo, number: &mut u64, records: &mut Vec<Record>) {
    let explicit = info.version == Version::Tls12 && info.algorithm != Algorithm::ChaCha20Poly1305;
    let nonce = if explicit { 8 } else { 0 };
    while !stream.is_empty() {
        assert_eq!(stream[1..3], [3, 3], "no record begins here");
        let len = usize::from(u16::from_be_bytes([stream[3], stream[4]]));
        let (record, rest) = stream[5..].split_at(len);
        let (body, icv) = record.split_at(len - 16);
        assert_eq!(icv, [0; 16], "room for the integrity check value");
        let mut content = &body[nonce..];
        let record_type = match info.version {
            Version::Tls12 => stream[0],
            Version::Tls13 => {
                let end = content.iter().rposition(|byte| *byte != 0).expect("a type");
                let record_type = content[end];
                content = &content[..end];
                record_type
            }
        };
        if explicit {
            let first = u64::from_be_bytes(info.iv[4..].try_into().unwrap());
            let told = u64::from_be_bytes(body[..8].try_into().unwrap());
            assert_eq!(told, first.wrapping_add(*number - info.sequence));
        }
        records.push(Record {
            record_type,
            content: content.to_vec(),
        });
        *number += 1;
        stream = rest;
    }
}

fn opened(stream: &[u8], info: CryptoInfo, records: &mut Vec<Record>) {
    let mut stream = stream.to_vec();
    let mut reader = Reader::new(info);
    let mut rest = &mut stream[..];
    while !rest.is_empty() {
        let len = reader.next_len(rest).expect("a record").expect("a header");
        let (record, behind) = rest.split_at_mut(len);
        let mut pieces = [Piece {
            data: (&mut *record).into(),
            decrypted: None,
        }];
        let opened = reader
            .open(&mut pieces, Output::InPlace)
            .expect("a record under the keys");
        let content = match opened.content {
            l5p::tls::Location::Record(range) => record[range].to_vec(),
            l5p::tls::Location::Output(_) => unreachable!("in place"),
        };
        records.push(Record {
            record_type: opened.content_type.0,
            content,
        });
        rest = behind;
    }
}

/// The content of all records, which are of one type.
pub fn content(records: &[Record], record_type: u8) -> Vec<u8> {
    assert!(
        records
            .iter()
            .all(|record| record.record_type == record_type)
    );
    records
        .iter()
        .flat_map(|record| record.content.clone())
        .collect()
}

/// What the peer has of a stream of application data, once the sender has closed it. See [`records`] for `software`.
pub fn finish(sender: Sender, received: Received, software: Option<CryptoInfo>) -> Vec<u8> {
    let cookie = sender.close();
    let got = records(cookie, &received.join().expect("the peer"), software);
    content(&got, RECORD_TYPE_DATA)
}

/// Waits until something holds.
pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !holds() {
        assert!(Instant::now() < end, "{what}: not within 20 s");
        thread::sleep(Duration::from_millis(5));
    }
}

/// The NIC asks for software in the middle of a record, and something may `happen` before more is sent: records are made in software from where it stops.
pub fn goes_on_in_software(happen: impl FnOnce(&Sender)) {
    let (sender, received) = connect();
    sender.set_keys(&keys((0x0304, 51), 1, 9));
    let data = pattern(300_000);
    sender.send_all(&data[..100_000], RECORD_TYPE_DATA, libc::MSG_MORE);
    let slot = nic::flow(sender.cookie).slot.expect("a slot");
    let generation = slot.generation();
    slot.slot()
        .set_status(Direction::Transmit, generation, OffloadState::Software);
    happen(&sender);
    sender.send_all(&data[100_000..], RECORD_TYPE_DATA, libc::MSG_DONTWAIT);
    let cookie = sender.close();
    let key_changes = nic::flow(cookie).key_changes;
    assert_eq!(key_changes.len(), 2);
    assert!(key_changes[1].keys.is_none());
    let got = records(cookie, &received.join().unwrap(), Some(info(1, 9)));
    assert_eq!(content(&got, RECORD_TYPE_DATA), data);
}
