//! Connections between hosts of a world, bytes on them, and what was counted.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use host::{ListenOptions, ListenerId, Offload, SocketError, SocketId};
use nic::ring::{Region, RegionId};

use super::{Host, World};
use crate::Suite;

/// The most virtual time that a handshake takes.
const CONNECT_LIMIT: Duration = Duration::from_secs(30);
/// The most virtual time that a transfer takes.
const TRANSFER_LIMIT: Duration = Duration::from_secs(600);

impl World {
    /// Connects host 0 to host 1 at `port`; answers both ends, at rest.
    ///
    /// # Panics
    /// When the connection does not come about.
    pub fn connect(&mut self, port: u16, ipv6: bool) -> (SocketId, SocketId) {
        self.connect_between([0, 1], port, ipv6)
    }

    /// Connects one host to another, which listens at `port` if it did not, and goes on listening; answers both ends, at rest.
    ///
    /// # Panics
    /// When the connection does not come about.
    pub fn connect_between(
        &mut self,
        [from, to]: [usize; 2],
        port: u16,
        ipv6: bool,
    ) -> (SocketId, SocketId) {
        let address = SocketAddr::new(Self::address(to, ipv6), port);
        let listener = self.listener(to, address);
        let now = self.now;
        let sender = self.stack(from).connect(now, address);
        let sender = sender.expect("a port to connect from is free");
        let mut receiver = None;
        let done = self.run_until(CONNECT_LIMIT, |world| {
            receiver = receiver.or_else(|| world.stack(to).accept(listener));
            receiver.is_some()
        });
        assert!(done, "the connection is stuck");
        self.settle();
        (sender, receiver.expect("done"))
    }

    /// The listener of a host at an address: the one that was made for it before, if it still listens, or a new one.
    fn listener(&mut self, node: usize, address: SocketAddr) -> ListenerId {
        let Host {
            stack, listeners, ..
        } = &mut self.hosts[node];
        let known = listeners.get(&address).copied();
        known
            .filter(|id| stack.listener_address(*id) == Some(address))
            .unwrap_or_else(|| {
                let listener = stack.listen(address, ListenOptions::default());
                let listener = listener.expect("the port is free");
                listeners.insert(address, listener);
                listener
            })
    }

    /// Ends the listening that [`connect_between`](Self::connect_between) has begun.
    ///
    /// # Panics
    /// When the host does not listen there.
    pub fn stop_listening(&mut self, node: usize, port: u16, ipv6: bool) {
        let address = SocketAddr::new(Self::address(node, ipv6), port);
        let host = &mut self.hosts[node];
        let listener = host.listeners.remove(&address).expect("it has listened");
        host.stack.close_listener(listener).expect("it listens");
    }

    /// Starts TLS between both ends of a connection from host 0 to host 1, with keys that are known to both.
    ///
    /// # Panics
    /// When the connection does not stand, or has TLS already.
    pub fn secure(
        &mut self,
        (sender, receiver): (SocketId, SocketId),
        suite: Suite,
        offload: Offload,
    ) {
        let [out, back] = [1, 2].map(|seed| suite.keys(seed));
        for (node, socket, transmit, receive) in [
            (0, sender, out.clone(), back.clone()),
            (1, receiver, back, out),
        ] {
            let now = self.now;
            let stack = self.stack(node);
            let installed = stack.install_tls(now, socket, transmit, receive, offload);
            installed.expect("a connection without TLS");
        }
    }

    /// Sends bytes from host `from` to the other one of hosts 0 and 1, which reads them; answers what was read.
    ///
    /// # Panics
    /// When either side can't, or they do not come.
    pub fn transfer(
        &mut self,
        from: usize,
        sender: SocketId,
        receiver: SocketId,
        data: &[u8],
    ) -> Vec<u8> {
        let mut written = 0;
        let mut received = Vec::with_capacity(data.len());
        let finished = self.run_until(TRANSFER_LIMIT, |world| {
            while written < data.len() {
                match world.write(from, sender, &data[written..]) {
                    0 => break,
                    bytes => written += bytes,
                }
            }
            world.read(1 - from, receiver, &mut received);
            received.len() >= data.len()
        });
        let got = received.len();
        let all = data.len();
        assert!(
            finished,
            "{written} written and {got} received of {all} bytes"
        );
        received
    }

    /// Writes what there is room for; answers how much that was.
    ///
    /// # Panics
    /// When the socket can't be written.
    pub fn write(&mut self, node: usize, socket: SocketId, data: &[u8]) -> usize {
        let now = self.now;
        match self.stack(node).write(now, socket, data) {
            Ok(bytes) => bytes,
            Err(SocketError::WouldBlock) => 0,
            Err(error) => panic!("write at host {node}: {error}"),
        }
    }

    /// Reads all that has come; answers whether that was the end of the stream.
    ///
    /// # Panics
    /// When the socket can't be read.
    pub fn read(&mut self, node: usize, socket: SocketId, into: &mut Vec<u8>) -> bool {
        let now = self.now;
        let mut buffer = vec![0; 64 << 10];
        loop {
            match self.stack(node).read(now, socket, &mut buffer) {
                Ok(0) => return true,
                Ok(bytes) => into.extend_from_slice(&buffer[..bytes]),
                Err(SocketError::WouldBlock) => return false,
                Err(error) => panic!("read at host {node} after {} bytes: {error}", into.len()),
            }
        }
    }

    /// Registers memory with a host, under a name for messages.
    ///
    /// # Panics
    /// When the host has no id left.
    pub fn register(&mut self, node: usize, memory: Arc<Region>, name: &str) -> RegionId {
        let registered = self.stack(node).register(memory, name);
        registered.expect("an id is left")
    }

    /// Closes a socket.
    ///
    /// # Panics
    /// When it is not open.
    pub fn close(&mut self, node: usize, socket: SocketId) {
        let now = self.now;
        self.stack(node).close(now, socket).expect("it is open");
    }

    /// Closes a socket's own direction.
    ///
    /// # Panics
    /// When it is not open.
    pub fn shutdown(&mut self, node: usize, socket: SocketId) {
        let now = self.now;
        self.stack(node).shutdown(now, socket).expect("it is open");
    }

    /// Resets a connection.
    ///
    /// # Panics
    /// When it is not open.
    pub fn abort(&mut self, node: usize, socket: SocketId) {
        let now = self.now;
        self.stack(node).abort(now, socket).expect("it is open");
    }

    /// A counter of a host's stack.
    ///
    /// # Panics
    /// When it has no such counter.
    pub fn counter(&self, node: usize, name: &str) -> u64 {
        find_counter(self.stack_ref(node).counters(), name)
    }

    /// A counter of a host's NIC.
    ///
    /// # Panics
    /// When it has no such counter.
    pub fn nic_counter(&self, node: usize, name: &str) -> u64 {
        find_counter(self.nic_counters(node).iter(), name)
    }
}

/// A counter among others.
///
/// # Panics
/// If no counter has that name.
pub(crate) fn find_counter(
    mut counters: impl Iterator<Item = (&'static str, u64)>,
    name: &str,
) -> u64 {
    let found = counters.find(|(counter, _)| *counter == name);
    found.unwrap_or_else(|| panic!("no counter {name}")).1
}
