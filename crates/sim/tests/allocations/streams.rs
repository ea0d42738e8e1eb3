//! In steady state no packet costs an allocation: neither in a host, nor in a NIC, nor on the link.

use std::time::Duration;

use host::{Event, Offload, ReadChunks, SocketError, SocketId};
use sim::{Suite, World, WorldConfig};
use testkit::allocations;

struct Pair {
    world: World,
    sender: SocketId,
    receiver: SocketId,
    chunks: ReadChunks,
}

#[derive(Clone, Copy, Debug)]
enum Reads {
    Copied,
    Chunk,
    Chunks,
}

/// A connection from host 0 to host 1, with TLS unless `offload` is `None`.
fn connect(offload: Option<Offload>) -> Pair {
    let mut world = World::new(WorldConfig::default());
    let (sender, receiver) = world.connect(1000, false);
    if let Some(offload) = offload {
        world.secure((sender, receiver), Suite::DEFAULT, offload);
    }
    Pair {
        world,
        sender,
        receiver,
        chunks: ReadChunks::default(),
    }
}

impl Pair {
    /// Moves that many bytes, and answers how many allocations that took, and how many frames.
    fn transfer(&mut self, bytes: usize, reads: Reads) -> (u64, u64) {
        let data = [7; 65_536];
        let mut buffer = [0; 65_536];
        let frames =
            |world: &World| world.nic_counters(0).tx_packets + world.nic_counters(1).tx_packets;
        let before = (allocations(), frames(&self.world));
        let (mut sent, mut received) = (0, 0);
        while received < bytes {
            let now = self.world.now();
            for node in 0..2 {
                while let Some(event) = self.world.stack(node).poll_event() {
                    assert!(!matches!(event, Event::Closed(..)), "{event:?}");
                }
            }
            while sent < bytes {
                let chunk = data.len().min(bytes - sent);
                match self.world.write(0, self.sender, &data[..chunk]) {
                    0 => break,
                    len => sent += len,
                }
            }
            loop {
                let stack = self.world.stack(1);
                let result = match reads {
                    Reads::Copied => stack.read(now, self.receiver, &mut buffer),
                    Reads::Chunk => {
                        let chunk = stack.read_chunk(now, self.receiver);
                        chunk.map(|chunk| chunk.map_or(0, |chunk| chunk.len()))
                    }
                    Reads::Chunks => stack.read_chunks(now, self.receiver, &mut self.chunks),
                };
                match result {
                    Ok(len) => received += len,
                    Err(SocketError::WouldBlock) => break,
                    Err(error) => panic!("{error}"),
                }
            }
            if self.world.step() {
                let next = self.world.now() + Duration::from_micros(20);
                self.world.advance_to(next);
            } else {
                assert!(self.world.advance());
            }
        }
        (allocations() - before.0, frames(&self.world) - before.1)
    }
}

#[test]
fn no_packet_costs_an_allocation() {
    for offload in [None, Some(Offload::None), Some(Offload::Both)] {
        for reads in [Reads::Copied, Reads::Chunk, Reads::Chunks] {
            let mut pair = connect(offload);
            // Windows grow, and with them the rings, queues and tables.
            pair.transfer(64 << 20, reads);
            let (allocated, frames) = pair.transfer(32 << 20, reads);
            assert!(frames > 20_000, "{frames} frames");
            assert!(
                allocated < frames / 1000,
                "{offload:?}, {reads:?}: {allocated} allocations for {frames} frames"
            );
        }
    }
}
