//! A library and a NIC at the two ends of a socket.

use std::io::{Read, Write};
use std::net::Ipv6Addr;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use l5p::tls::{Algorithm, CryptoInfo, Version};
use rustix::event::{PollFd, PollFlags, poll};
use wire::FlowKey;

use crate::{
    ATTACH_LINE, ATTACHED_LINE, Admitted, Answer, Client, Connection, ConnectionError, Errno,
    Examine, Registry, SlotRequest, SocketFacts, Tenant,
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

/// Who shows sockets here.
pub(super) const TENANT: u32 = 1000;

/// Linux, which knows of a socket what file it is.
pub(super) struct Descriptors;

impl Examine for Descriptors {
    fn examine(&mut self, socket: BorrowedFd<'_>, tenant: u32) -> Result<SocketFacts, Errno> {
        let address = (Ipv6Addr::LOCALHOST.into(), 1);
        Ok(SocketFacts {
            tenant,
            interface: 3,
            flow: FlowKey {
                src: address,
                dst: address,
            },
            cookie: rustix::fs::fstat(socket)?.st_ino,
            acknowledged: 1 << 40,
            unacknowledged: 2,
            received: 3,
            unread: 4,
            window: 0,
            reordered: true,
            peer_has_ended: false,
            timestamp: Some(5),
        })
    }
}

/// As a request comes to another process.
pub(super) fn on_its_way(admitted: Admitted) -> Admitted {
    let (bytes, file) = admitted.to_bytes();
    let file = file.map(|file| file.try_clone_to_owned().unwrap());
    Admitted::from_bytes(&bytes, file).unwrap()
}

/// A library's end, and a thread that is the NIC's and answers what `nic` says to each order until the library is gone.
pub(super) fn pair(
    mut nic: impl FnMut(SlotRequest) -> Answer + Send + 'static,
) -> (Client, JoinHandle<ConnectionError>) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let thread = thread::spawn(move || {
        let mut connection = accept(theirs);
        let (mut registry, mut tenant) = (Registry::default(), Tenant::default());
        loop {
            wait(&connection);
            let incoming = match connection.poll_request() {
                Ok(Some(incoming)) => incoming,
                Ok(None) => continue,
                Err(error) => return error,
            };
            let answer = incoming.answer(TENANT, &mut Descriptors, |admitted| {
                registry.answer(&mut tenant, on_its_way(admitted), &mut nic)
            });
            connection.answer(answer).unwrap();
        }
    });
    ours.set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    let client = Client::greet(OwnedFd::from(ours)).unwrap();
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
