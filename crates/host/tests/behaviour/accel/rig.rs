//! A server whose NIC does what it can, and a client that does all itself.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use nic::NicConfig;

use crate::pair::{CLIENT, Connected as _, PORT, Pair, SERVER, hosts_with};
use host::{Accel, Event, ListenOptions, ListenerId, SocketError, SocketId};

/// A pair whose server asks its NIC for all of `accel`.
pub fn pair(accel: Accel) -> Pair {
    pair_with(accel, |_| {})
}

/// The same, with a NIC whose limits `nic` has changed.
pub fn pair_with(accel: Accel, nic: impl Fn(&mut NicConfig)) -> Pair {
    hosts_with(|at, node| {
        if at == SERVER {
            node.stack.accel = accel;
            nic(&mut node.nic);
        }
    })
}

/// Lets the server listen, and its NIC hear of it.
pub fn listen(pair: &mut Pair, ip: fn(usize) -> IpAddr, options: ListenOptions) -> ListenerId {
    let address = SocketAddr::new(ip(SERVER), PORT);
    let listener = pair.stack(SERVER).listen(address, options).expect("free");
    pair.run_for(Duration::from_millis(1));
    listener
}

/// Opens a connection: the client's socket.
pub fn open(pair: &mut Pair, ip: fn(usize) -> IpAddr) -> SocketId {
    let now = pair.now();
    let address = SocketAddr::new(ip(SERVER), PORT);
    pair.stack(CLIENT).connect(now, address).expect("a route")
}

/// Waits until the listener has a connection.
pub fn accept(pair: &mut Pair, listener: ListenerId) -> SocketId {
    let mut accepted = None;
    let done = pair.run_until(Duration::from_secs(30), |pair| {
        accepted = accepted.or_else(|| pair.stack(SERVER).accept(listener));
        accepted.is_some()
    });
    assert!(done, "nothing to accept");
    accepted.expect("done")
}

/// Waits until the client is connected and writes its request.
pub fn request(pair: &mut Pair, client: SocketId, data: &[u8]) {
    let connected = |pair: &mut Pair| {
        let events = &pair.events(CLIENT);
        events.contains(&Event::Connected(client))
    };
    assert!(
        pair.run_until(Duration::from_secs(30), connected),
        "no connection"
    );
    let now = pair.now();
    let written = pair.stack(CLIENT).write(now, client, data);
    assert_eq!(written, Ok(data.len()));
}

/// Reads until there are `len` bytes, or to the end with `None`.
pub fn read(pair: &mut Pair, at: usize, socket: SocketId, len: Option<usize>) -> Vec<u8> {
    let mut read = Vec::new();
    let mut buffer = vec![0; 100_000];
    let done = pair.run_until(Duration::from_secs(120), |pair| {
        let now = pair.now();
        while len.is_none_or(|len| read.len() < len) {
            match pair.stack(at).read(now, socket, &mut buffer) {
                Ok(0) => return len.is_none(),
                Ok(bytes) => read.extend_from_slice(&buffer[..bytes]),
                Err(SocketError::WouldBlock) => return false,
                Err(error) => panic!("read after {} bytes: {error}", read.len()),
            }
        }
        true
    });
    assert!(done, "only {} bytes came", read.len());
    read
}

/// Closes what is left at the client, waits long enough for everything to end, and looks whether anything is left anywhere.
pub fn assert_nothing_left(pair: &mut Pair) {
    pair.run_for(Duration::from_secs(200));
    for at in [CLIENT, SERVER] {
        pair.assert_no_sockets(at);
        assert_eq!(pair.counter(at, "AccelCurrQuasi"), 0);
        assert!(!pair.stack(at).has_pending_teardowns());
    }
    let taken = pair.nic_counter(SERVER, "accel_closing");
    let ended = pair.nic_counter(SERVER, "accel_closing_ended");
    let aborted = pair.nic_counter(SERVER, "accel_closing_aborted");
    assert_eq!(ended + aborted, taken);
}
