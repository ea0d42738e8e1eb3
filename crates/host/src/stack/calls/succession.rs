//! What the stack of a process that takes this one's place must know.

use std::time::Instant;

use tcp::TimeWaitEntry;
use wire::FlowKey;

use crate::stack::Stack;

impl Stack {
    /// Which of several stacks with the same addresses it is; 0 if it is the only one.
    pub fn worker(&self) -> usize {
        let shard = self.offload.transport.config.shard;
        shard.map_or(0, |shard| shard.worker)
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
