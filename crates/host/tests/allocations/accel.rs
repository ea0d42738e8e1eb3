//! A short connection that the NIC sets up and finishes costs its host no allocation in steady state.

use std::net::SocketAddr;

use crate::world::{CLIENT, SERVER, Watched};
use host::{Accel, Event, ListenOptions, SocketError, SocketId};
use sim::World;

const CONNECTIONS: usize = 64;

impl Watched {
    /// So many connections from beginning to end, at once.
    fn round(&mut self) {
        let remote = SocketAddr::new(World::address(SERVER, false), 80);
        let now = self.world.now();
        let client = self.world.stack(CLIENT);
        let clients: Vec<SocketId> = (0..CONNECTIONS)
            .map(|_| client.connect(now, remote).expect("a port"))
            .collect();
        let mut left = clients.len();
        let mut buffer = [0; 256];
        while left > 0 {
            self.step();
            let now = self.world.now();
            let client = self.world.stack(CLIENT);
            while let Some(event) = client.poll_event() {
                match event {
                    Event::Connected(id) => {
                        assert_eq!(client.write(now, id, &[7; 64]), Ok(64));
                        let empty = client.read(now, id, &mut buffer);
                        assert_eq!(empty, Err(SocketError::WouldBlock));
                    }
                    Event::Readable(id) => {
                        while client.read(now, id, &mut buffer) == Ok(64) {}
                        if client.read(now, id, &mut buffer) == Ok(0) {
                            client.close(now, id).expect("open");
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
}

#[test]
fn a_short_connection_costs_its_host_no_allocation() {
    let mut watched = Watched::new(|at, config| {
        config.accel = if at == SERVER {
            Accel::ALL
        } else {
            Accel::NONE
        };
    });
    let listener = SocketAddr::new(World::address(SERVER, false), 80);
    let options = ListenOptions {
        defer: true,
        ..ListenOptions::default()
    };
    let stack = watched.world.stack(SERVER);
    stack.listen(listener, options).expect("free");
    watched.step();
    // Until every table is as large as it gets.
    for _ in 0..30 {
        watched.round();
    }
    watched.start_counting();
    for _ in 0..30 {
        watched.round();
    }
    let counter = |name| watched.world.counter(SERVER, name);
    assert_eq!(counter("AccelSetups"), 60 * CONNECTIONS as u64);
    assert_eq!(counter("AccelTeardowns"), 60 * CONNECTIONS as u64);
    assert_eq!(counter("AccelQuasiPromoted"), 0);
    assert_eq!(watched.allocations(), 0);
}
