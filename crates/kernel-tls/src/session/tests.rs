//! Two sessions over a TCP connection of the loopback interface.

mod api;
mod errors;
mod forked;
mod held;
#[path = "../../tests/keys/mod.rs"]
mod keys;
mod readiness;
#[path = "../../tests/signals/mod.rs"]
mod signals;
mod stream;
mod traces;

use std::io;
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;

use rustix::io::Errno;

use super::{Received, Session};
use crate::{RECORD_TYPE_DATA, TLS_RX, TLS_TX};
use keys::keys;

/// One end.
struct End {
    socket: TcpStream,
    session: Arc<Session>,
}

/// Both ends of a connection, without keys.
fn pair() -> io::Result<(End, End)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let client = TcpStream::connect(listener.local_addr()?)?;
    let (server, _) = listener.accept()?;
    Ok((End::new(client), End::new(server)))
}

/// Both ends, with keys of this version and cipher.
fn keyed(version: u16, cipher: u16) -> io::Result<(End, End)> {
    let (a, b) = pair()?;
    let (there, back) = (keys(version, cipher, 1, 5), keys(version, cipher, 2, 0));
    a.set(TLS_TX, &there)?;
    b.set(TLS_RX, &there)?;
    b.set(TLS_TX, &back)?;
    a.set(TLS_RX, &back)?;
    Ok((a, b))
}

const TLS_1_2: u16 = 0x0303;
const TLS_1_3: u16 = 0x0304;
const CIPHERS: [u16; 3] = [51, 52, 54];

impl End {
    fn new(socket: TcpStream) -> End {
        socket.set_nodelay(true).expect("a TCP socket");
        let session = Session::new(socket.as_fd()).expect("an established socket");
        End {
            session: Arc::new(session),
            socket,
        }
    }

    fn set(&self, option: i32, value: &[u8]) -> Result<(), Errno> {
        self.session.set_option(self.socket.as_fd(), option, value)
    }

    fn send(&self, data: &[u8], record_type: u8, flags: i32) -> Result<usize, Errno> {
        self.session
            .send(self.socket.as_fd(), &[data], record_type, flags)
    }

    fn write(&self, data: &[u8]) {
        assert_eq!(self.send(data, RECORD_TYPE_DATA, 0), Ok(data.len()));
    }

    fn receive(
        &self,
        room: usize,
        control: bool,
        flags: i32,
    ) -> Result<(Vec<u8>, Received), Errno> {
        let mut buffer = vec![0; room];
        let received =
            self.session
                .receive(self.socket.as_fd(), &mut [&mut buffer], control, flags)?;
        buffer.truncate(received.len);
        Ok((buffer, received))
    }

    /// Application data, as much as a call gives.
    fn read(&self, room: usize) -> Result<Vec<u8>, Errno> {
        self.receive(room, false, 0).map(|(data, _)| data)
    }

    fn read_exactly(&self, len: usize) -> Vec<u8> {
        let mut data = Vec::new();
        while data.len() < len {
            let more = self.read(len - data.len()).expect("data");
            assert!(
                !more.is_empty(),
                "the stream ended at {} of {len}",
                data.len()
            );
            data.extend(more);
        }
        data
    }
}

/// Bytes that are not like each other.
fn pattern(len: usize) -> Vec<u8> {
    (0..len as u32)
        .map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect()
}
