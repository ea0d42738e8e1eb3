//! Handing off and restoring, and what must be the same as ever.

use std::time::Duration;

use crate::pair::{CLIENT, Connected as _, Pair, SERVER, hosts_with};
use host::memory::SizeClass;
use host::{Accel, CloseReason, Event, Holder, SocketId};

/// A pair whose server's NIC joins connections.
pub fn splicing() -> Pair {
    hosts_with(|at, node| {
        if at == SERVER {
            node.stack.accel = Accel::ALL;
            node.stack.accel.setup = false;
        }
    })
}

/// Hands a connection off and waits until the NIC runs it.
pub fn hand_off(pair: &mut Pair, at: usize, id: SocketId) {
    let now = pair.now();
    assert_eq!(pair.stack(at).hand_off(now, id), Ok(()));
    let accepted = pair.counter(at, "HandoffAccepted") + 1;
    let done = pair.run_until(Duration::from_secs(5), |pair| {
        pair.counter(at, "HandoffAccepted") == accepted
    });
    assert!(done, "{:?}", pair.stack(at).info(id));
    assert_eq!(holder(pair, at, id), Some(Holder::Nic));
}

/// Takes a connection back and waits until the host runs it.
pub fn restore(pair: &mut Pair, at: usize, id: SocketId) {
    let now = pair.now();
    assert_eq!(pair.stack(at).restore(now, id), Ok(true));
    let done = pair.run_until(Duration::from_secs(5), |pair| {
        holder(pair, at, id) == Some(Holder::Host)
    });
    assert!(done, "{:?}", pair.stack(at).info(id));
}

/// Waits until a host's application is told that a connection has ended, closes its socket, and looks whether anything is left
/// anywhere.
pub fn assert_ends(
    pair: &mut Pair,
    (at, id, reason): (usize, SocketId, CloseReason),
    before: [[u32; 4]; 2],
) {
    await_closed(pair, at, id, reason);
    pair.close(at, id);
    assert_all_given_back(pair, before);
}

/// Waits until a host's application is told that a connection has ended.
pub fn await_closed(pair: &mut Pair, at: usize, id: SocketId, reason: CloseReason) {
    let closed = Event::Closed(id, reason);
    let done = pair.run_until(Duration::from_secs(1), |pair| {
        pair.events(at).contains(&closed)
    });
    assert!(done, "{:?}", pair.events(at));
}

pub fn holder(pair: &mut Pair, at: usize, id: SocketId) -> Option<Holder> {
    pair.stack(at).info(id).map(|info| info.holder)
}

/// One direction of an exchange.
pub struct Flow {
    pub from: usize,
    pub sender: SocketId,
    pub receiver: SocketId,
    pub data: Vec<u8>,
    pub written: usize,
    pub read: Vec<u8>,
}

impl Flow {
    pub fn new(from: usize, sender: SocketId, receiver: SocketId, data: Vec<u8>) -> Self {
        Self {
            from,
            sender,
            receiver,
            read: Vec::with_capacity(data.len()),
            written: 0,
            data,
        }
    }

    /// Writes and reads what it can.
    pub fn step(&mut self, pair: &mut Pair) {
        self.written += pair.write(self.from, self.sender, &self.data[self.written..]);
        pair.read(1 - self.from, self.receiver, &mut self.read);
    }

    pub fn is_done(&self) -> bool {
        self.read.len() >= self.data.len()
    }
}

/// Moves bytes both ways at once; `act` is called now and then with the number of the call.
pub fn exchange(
    pair: &mut Pair,
    (client, server): (SocketId, SocketId),
    data: [&[u8]; 2],
    every: u32,
    mut act: impl FnMut(&mut Pair, u32),
) {
    let mut flows = [
        Flow::new(CLIENT, client, server, data[CLIENT].to_vec()),
        Flow::new(SERVER, server, client, data[SERVER].to_vec()),
    ];
    let mut steps = 0;
    let done = pair.run_until(Duration::from_secs(600), |pair| {
        for flow in &mut flows {
            flow.step(pair);
        }
        steps += 1;
        if steps % every == 0 {
            act(pair, steps / every);
        }
        flows.iter().all(Flow::is_done)
    });
    let read: Vec<_> = flows
        .iter()
        .map(|flow| (flow.written, flow.read.len()))
        .collect();
    assert!(done, "written and read: {read:?}");
    for flow in &flows {
        assert!(flow.read == flow.data, "what host {} has sent", flow.from);
    }
}

/// Closes both sockets, and looks whether anything is left anywhere when all has died out.
pub fn assert_all_given_back(pair: &mut Pair, before: [[u32; 4]; 2]) {
    pair.run_for(Duration::from_secs(200));
    for at in [CLIENT, SERVER] {
        pair.assert_no_sockets(at);
        assert_eq!(pair.counter(at, "HandoffCurr"), 0);
        assert_eq!(pair.nic_counter(at, "toe_connections"), 0);
        let [header, packet, record, large] = in_use(pair, at);
        assert_eq!((header, record), (before[at][0], before[at][2]));
        // The NIC gets buffers in batches, and one block is for short writes of all sockets.
        let was = before[at];
        assert!(
            packet <= was[1] && large <= was[3] + 1,
            "{packet} {large} {was:?}"
        );
        assert_eq!(pair.counter(at, "DriverErrors"), 0);
    }
}

/// Blocks of the arena that are in use, by class.
pub fn in_use(pair: &mut Pair, at: usize) -> [u32; 4] {
    let stats = pair.stack(at).arena_stats();
    std::array::from_fn(|class| {
        debug_assert_eq!(stats.pools[class].class, SizeClass::ALL[class]);
        stats.pools[class].in_use
    })
}
