//! A library and a NIC at the two ends of a socket.

use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use l5p::tls::{Algorithm, CryptoInfo, Version};
use rustix::event::{PollFd, PollFlags, poll};

use crate::{
    ATTACH_LINE, ATTACHED_LINE, Answer, Client, Connection, ConnectionError, Order, Registry,
    Resolved,
};

/// Keys like any.
pub(super) fn keys() -> CryptoInfo {
    CryptoInfo {
        version: Version::Tls13,
        algorithm: Algorithm::Aes256Gcm,
        key: [7; 32],
        iv: [9; 12],
        sequence: u64::MAX - 3,
    }
}

/// A library's end, and a thread that is the NIC's and answers what `nic` says to each order until the library is gone.
pub(super) fn pair(
    mut nic: impl FnMut(Order) -> Answer + Send + 'static,
) -> (Client, JoinHandle<ConnectionError>) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let thread = thread::spawn(move || {
        let mut connection = accept(theirs);
        let mut registry = Registry::default();
        loop {
            wait(&connection);
            let incoming = match connection.poll_request() {
                Ok(Some(incoming)) => incoming,
                Ok(None) => continue,
                Err(error) => return error,
            };
            let answer = match registry.resolve(&mut connection, incoming) {
                Ok(Resolved::Attached(answer)) => answer,
                Ok(Resolved::Order(order)) => nic(order),
                Err(refusal) => refusal.into(),
            };
            connection.answer(answer).unwrap();
        }
    });
    let client = Client::greet(OwnedFd::from(ours), Duration::from_secs(20)).unwrap();
    (client, thread)
}

/// What the control socket does with a connection that says that it wants to be an attachment.
fn accept(mut stream: UnixStream) -> Connection {
    let mut line = [0; ATTACH_LINE.len()];
    stream.read_exact(&mut line).unwrap();
    assert_eq!(line, *ATTACH_LINE.as_bytes());
    stream.write_all(ATTACHED_LINE.as_bytes()).unwrap();
    Connection::new(OwnedFd::from(stream))
}

fn wait(connection: &Connection) {
    poll(&mut [PollFd::new(connection, PollFlags::IN)], None).unwrap();
}
