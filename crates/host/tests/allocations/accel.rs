//! A short connection that the NIC sets up and finishes costs its host no allocation in steady state.

use std::net::SocketAddr;

use crate::world::{CLIENT, SERVER, World, address};
use host::{Accel, Event, ListenOptions, SocketError, SocketId};

const CONNECTIONS: usize = 64;

impl World {
    /// So many connections from beginning to end, at once.
    fn round(&mut self) {
        let remote = SocketAddr::new(address(SERVER), 80);
        let now = self.now;
        let clients: Vec<SocketId> = (0..CONNECTIONS)
            .map(|_| self.stacks[CLIENT].connect(now, remote).expect("a port"))
            .collect();
        let mut left = clients.len();
        let mut buffer = [0; 256];
        while left > 0 {
            self.step();
            while let Some(event) = self.stacks[CLIENT].poll_event() {
                let client = &mut self.stacks[CLIENT];
                match event {
                    Event::Connected(id) => {
                        assert_eq!(client.write(self.now, id, &[7; 64]), Ok(64));
                        let empty = client.read(self.now, id, &mut buffer);
                        assert_eq!(empty, Err(SocketError::WouldBlock));
                    }
                    Event::Readable(id) => {
                        while client.read(self.now, id, &mut buffer) == Ok(64) {}
                        if client.read(self.now, id, &mut buffer) == Ok(0) {
                            client.close(self.now, id).expect("open");
                            left -= 1;
                        }
                    }
                    _ => {}
                }
            }
            self.on_server(|stack, now| {
                while let Some(event) = stack.poll_event() {
                    match event {
                        Event::Accepted(listener) => while stack.accept(listener).is_some() {},
                        Event::Readable(id) => {
                            let chunk = stack.read_chunk(now, id).expect("open");
                            assert_eq!(chunk.map(|chunk| chunk.len()), Some(64));
                            assert_eq!(stack.write(now, id, &[9; 64]), Ok(64));
                            stack.close(now, id).expect("open");
                        }
                        _ => {}
                    }
                }
            });
        }
    }

    fn counter(&self, name: &str) -> u64 {
        let mut counters = self.stacks[SERVER].counters();
        counters
            .find(|(counter, _)| *counter == name)
            .expect(name)
            .1
    }
}

#[test]
fn a_short_connection_costs_its_host_no_allocation() {
    let mut world = World::new(|at, config| {
        config.accel = if at == SERVER {
            Accel::ALL
        } else {
            Accel::NONE
        };
    });
    let listener = SocketAddr::new(address(SERVER), 80);
    let options = ListenOptions {
        defer: true,
        ..ListenOptions::default()
    };
    world.stacks[SERVER]
        .listen(listener, options)
        .expect("free");
    world.step();
    // Until every table is as large as it gets.
    for _ in 0..30 {
        world.round();
    }
    world.allocations = 0;
    for _ in 0..30 {
        world.round();
    }
    assert_eq!(world.counter("AccelSetups"), 60 * CONNECTIONS as u64);
    assert_eq!(world.counter("AccelTeardowns"), 60 * CONNECTIONS as u64);
    assert_eq!(world.counter("AccelQuasiPromoted"), 0);
    assert_eq!(world.allocations, 0);
}
