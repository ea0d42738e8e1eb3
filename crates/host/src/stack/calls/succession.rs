//! What the stack of a process that takes this one's place must know.

use std::sync::Arc;
use std::time::Instant;

use port::{Foreign, Ports};
use tcp::TimeWaitEntry;
use wire::FlowKey;

use crate::stack::Stack;
use crate::transport::PORTS;

impl Stack {
    /// The local ports that stay with a process whose place another one takes: a quarter of those of outgoing connections, but for those that one of
    /// the two listens at, so that what comes for them is that process's or was never asked for.
    pub fn ports_of_predecessor(listened: Vec<u16>) -> Ports {
        let range = PORTS.end - (PORTS.end - PORTS.start) / 4..PORTS.end;
        Ports::new(range, listened)
    }

    /// Opens connections from these ports only, or from all again. Those that there are stay.
    pub fn set_outgoing_ports(&mut self, ports: Option<Ports>) {
        self.transport().outgoing.ports = ports;
    }

    /// Opens no connection that another process with these addresses has, or may open; or any again.
    pub fn set_foreign(&mut self, foreign: Option<Arc<Foreign>>) {
        self.transport().outgoing.foreign = foreign;
    }

    /// The ports of its listeners.
    pub fn listened_ports(&self) -> Vec<u16> {
        let listeners = self.offload.transport.listeners.iter();
        listeners.map(|(_, it)| it.address.port()).collect()
    }

    /// Which of several stacks with the same addresses it is; 0 if it is the only one.
    pub fn worker(&self) -> usize {
        let shard = self.offload.transport.config.shard;
        shard.map_or(0, |shard| shard.worker)
    }

    /// How much the NIC has told this stack so far, packets and all else: where two polls find the same, nothing is on its way from there.
    pub fn taken_in(&self) -> u64 {
        self.taken
    }

    /// The flows of all connections, from here to the peer: of any state, those in TIME-WAIT too.
    pub fn flows(&self) -> impl Iterator<Item = FlowKey> + '_ {
        let transport = &self.offload.transport;
        let sockets = &transport.sockets;
        let open = sockets.ids().filter_map(|id| match sockets.get(id) {
            Some(socket) => Some(socket.flow),
            None => {
                let (quasi, _) = sockets.quasi(id)?;
                Some(sockets.quasis.flow(quasi))
            }
        });
        open.chain(transport.time_wait.flows())
    }

    /// Connections in TIME-WAIT that the host answers for.
    pub fn resting(&self, now: Instant) -> impl Iterator<Item = (FlowKey, TimeWaitEntry)> + '_ {
        self.offload.transport.time_wait.entries(now)
    }

    /// Takes over a connection in TIME-WAIT from another stack with these addresses. It rests for the whole time again.
    pub fn rest(&mut self, now: Instant, flow: FlowKey, entry: TimeWaitEntry) {
        self.transport().time_wait.insert(now, flow, entry);
    }
}
