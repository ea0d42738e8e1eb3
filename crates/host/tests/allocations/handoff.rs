//! A request and its response on a connection that the NIC runs cost the host no allocation.

use std::time::Instant;

use crate::world::{CLIENT, SERVER, Watched};
use host::{Event, Holder, SocketError, SocketId, Stack};

const CONNECTIONS: usize = 64;
const REQUEST: usize = 100;
const RESPONSE: usize = 4000;

/// Clients that ask, and the server that answers.
struct Requests {
    watched: Watched,
    clients: Vec<SocketId>,
    servers: Vec<SocketId>,
    response: Vec<u8>,
}

impl Requests {
    fn new() -> Self {
        let mut watched = Watched::new(|_, _| {});
        let connections = (0..CONNECTIONS).map(|_| watched.world.connect(80, false));
        let (clients, servers) = connections.unzip();
        for at in [CLIENT, SERVER] {
            while watched.world.stack(at).poll_event().is_some() {}
        }
        Self {
            watched,
            clients,
            servers,
            response: vec![9; RESPONSE],
        }
    }

    /// A request and a response on each connection.
    fn round(&mut self) {
        for client in &self.clients {
            let written = self.watched.world.write(CLIENT, *client, &[7; REQUEST]);
            assert_eq!(written, REQUEST);
        }
        let mut left = CONNECTIONS * RESPONSE;
        let mut received = Vec::new();
        while left > 0 {
            self.watched.step();
            let response = &self.response;
            self.watched.on_server(|stack, now| {
                while let Some(event) = stack.poll_event() {
                    let Event::Readable(id) = event else { continue };
                    let read = stack.read(now, id, &mut [0; 2 * REQUEST]);
                    assert_eq!(read, Ok(REQUEST));
                    let more = stack.read(now, id, &mut [0; 1]);
                    assert_eq!(more, Err(SocketError::WouldBlock));
                    assert_eq!(stack.write(now, id, response), Ok(RESPONSE));
                }
            });
            for client in &self.clients {
                received.clear();
                self.watched.world.read(CLIENT, *client, &mut received);
                left -= received.len();
            }
            while self.watched.world.stack(CLIENT).poll_event().is_some() {}
        }
    }

    /// Allocations of many requests.
    fn measure(&mut self) -> u64 {
        const ROUNDS: usize = 50;
        // Until every table is as large as it gets.
        for _ in 0..ROUNDS {
            self.round();
        }
        self.watched.start_counting();
        for _ in 0..ROUNDS {
            self.round();
        }
        self.watched.allocations()
    }

    /// Hands all connections off, or restores them.
    fn move_all(&mut self, mut start: impl FnMut(&mut Stack, Instant, SocketId)) {
        for &id in &self.servers {
            self.watched.on_server(|stack, now| start(stack, now, id));
        }
        for _ in 0..10 {
            self.watched.step();
        }
    }

    fn held(&self) -> usize {
        let stack = self.watched.world.stack_ref(SERVER);
        let infos = self.servers.iter().filter_map(|id| stack.info(*id));
        infos.filter(|info| info.holder == Holder::Nic).count()
    }
}

#[test]
fn requests_on_a_connection_that_the_nic_runs_cost_its_host_no_allocation() {
    let mut requests = Requests::new();
    requests.measure();
    requests.move_all(|stack, now, id| assert_eq!(stack.hand_off(now, id), Ok(())));
    assert_eq!(requests.held(), CONNECTIONS);
    assert_eq!(requests.measure(), 0);
    assert_eq!(requests.held(), CONNECTIONS);
    requests.move_all(|stack, now, id| assert_eq!(stack.restore(now, id), Ok(true)));
    assert_eq!(requests.held(), 0);
}
