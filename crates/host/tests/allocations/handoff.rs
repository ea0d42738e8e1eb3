//! A request and its response on a connection that the NIC runs cost the host no allocation.

use std::net::SocketAddr;
use std::time::Instant;

use crate::world::{CLIENT, SERVER, World, address};
use host::{Event, Holder, ListenOptions, SocketError, SocketId, Stack};

const CONNECTIONS: usize = 64;
const REQUEST: usize = 100;
const RESPONSE: usize = 4000;

/// Clients that ask, and the server that answers.
struct Requests {
    world: World,
    clients: Vec<SocketId>,
    servers: Vec<SocketId>,
    response: Vec<u8>,
}

impl Requests {
    fn new() -> Self {
        let mut requests = Self {
            world: World::new(|_, _| {}),
            clients: Vec::new(),
            servers: Vec::new(),
            response: vec![9; RESPONSE],
        };
        requests.connect();
        requests
    }

    fn connect(&mut self) {
        let remote = SocketAddr::new(address(SERVER), 80);
        let options = ListenOptions::default();
        let listener = self.world.stacks[SERVER]
            .listen(remote, options)
            .expect("free");
        let now = self.world.now;
        self.clients = (0..CONNECTIONS)
            .map(|_| {
                self.world.stacks[CLIENT]
                    .connect(now, remote)
                    .expect("a port")
            })
            .collect();
        while self.servers.len() < CONNECTIONS {
            self.world.step();
            self.servers
                .extend(self.world.stacks[SERVER].accept(listener));
        }
        for _ in 0..10 {
            self.world.step();
        }
        for at in [CLIENT, SERVER] {
            while self.world.stacks[at].poll_event().is_some() {}
        }
    }

    /// A request and a response on each connection.
    fn round(&mut self) {
        let mut buffer = [0; RESPONSE];
        for client in &self.clients {
            let written = self.world.stacks[CLIENT].write(self.world.now, *client, &[7; REQUEST]);
            assert_eq!(written, Ok(REQUEST));
        }
        let mut left = CONNECTIONS * RESPONSE;
        while left > 0 {
            self.world.step();
            let response = std::mem::take(&mut self.response);
            self.world.on_server(|stack, now| {
                while let Some(event) = stack.poll_event() {
                    let Event::Readable(id) = event else { continue };
                    let read = stack.read(now, id, &mut [0; 2 * REQUEST]);
                    assert_eq!(read, Ok(REQUEST));
                    let more = stack.read(now, id, &mut [0; 1]);
                    assert_eq!(more, Err(SocketError::WouldBlock));
                    assert_eq!(stack.write(now, id, &response), Ok(RESPONSE));
                }
            });
            self.response = response;
            for client in &self.clients {
                while let Ok(bytes) =
                    self.world.stacks[CLIENT].read(self.world.now, *client, &mut buffer)
                {
                    left -= bytes;
                }
            }
            while self.world.stacks[CLIENT].poll_event().is_some() {}
        }
    }

    /// Host cycles of a request, and allocations of many.
    fn measure(&mut self) -> (u64, u64) {
        const ROUNDS: usize = 50;
        // Until every table is as large as it gets.
        for _ in 0..ROUNDS {
            self.round();
        }
        (self.world.allocations, self.world.cycles) = (0, 0);
        for _ in 0..ROUNDS {
            self.round();
        }
        (
            self.world.cycles / (ROUNDS * CONNECTIONS) as u64,
            self.world.allocations,
        )
    }

    /// Host cycles for each connection that is handed off or restored.
    fn move_all(&mut self, mut start: impl FnMut(&mut Stack, Instant, SocketId)) -> u64 {
        self.world.cycles = 0;
        for at in 0..CONNECTIONS {
            let id = self.servers[at];
            self.world.on_server(|stack, now| start(stack, now, id));
        }
        for _ in 0..10 {
            self.world.step();
        }
        self.world.cycles / CONNECTIONS as u64
    }

    fn held(&self) -> usize {
        let infos = self
            .servers
            .iter()
            .map(|id| self.world.stacks[SERVER].info(*id));
        infos
            .flatten()
            .filter(|info| info.holder == Holder::Nic)
            .count()
    }
}

#[test]
fn requests_on_a_connection_that_the_nic_runs_cost_its_host_no_allocation() {
    let mut world = Requests::new();
    let (by_host, _) = world.measure();
    let handing = world.move_all(|stack, now, id| assert_eq!(stack.hand_off(now, id), Ok(())));
    assert_eq!(world.held(), CONNECTIONS);
    let (by_nic, allocations) = world.measure();
    assert_eq!(allocations, 0);
    assert_eq!(world.held(), CONNECTIONS);
    let restoring = world.move_all(|stack, now, id| assert_eq!(stack.restore(now, id), Ok(true)));
    assert_eq!(world.held(), 0);
    println!(
        "host cycles: {by_host} for a request by the host, {by_nic} by the NIC; {handing} for a handoff, {restoring} for a restore"
    );
}
