//! Bytes in both directions through a proxy that relays whenever its sockets are its own.

use std::time::{Duration, Instant};

use host::{Event, SocketError, SocketId};

use sim::World;
use testkit::pattern_of;

use super::rig::{BACKEND, CLIENT, Joined, PROXY};

/// One end's plan.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub bytes: usize,
    /// Written at once.
    pub piece: usize,
    /// Shuts its direction down when all is written.
    pub shuts: bool,
}

/// What an end has done so far.
#[derive(Debug)]
pub struct End {
    pub node: usize,
    pub socket: SocketId,
    data: Vec<u8>,
    plan: Plan,
    pub written: usize,
    pub shut: bool,
    pub received: Vec<u8>,
    pub saw_end: bool,
    pub error: Option<SocketError>,
}

/// Both ends, and what the proxy relays itself.
pub struct Flows {
    pub ends: [End; 2],
    joined: Joined,
    /// Read from one side, and not yet written to the other.
    relayed: [Vec<u8>; 2],
    finished: [bool; 2],
}

impl Flows {
    pub fn new(joined: Joined, plans: [Plan; 2]) -> Self {
        let end = |node, socket, plan: Plan, seed| End {
            node,
            socket,
            data: pattern_of(plan.bytes, seed),
            plan,
            written: 0,
            shut: false,
            received: Vec::new(),
            saw_end: false,
            error: None,
        };
        Self {
            ends: [
                end(CLIENT, joined.client, plans[0], 1),
                end(BACKEND, joined.server, plans[1], 2),
            ],
            joined,
            relayed: Default::default(),
            finished: [false; 2],
        }
    }

    /// Writes and reads what can be.
    pub fn drive(&mut self, world: &mut World) {
        for end in &mut self.ends {
            end.drive(world);
        }
        self.relay(world);
    }

    fn relay(&mut self, world: &mut World) {
        let sockets = [self.joined.front, self.joined.back];
        for side in 0..2 {
            let (from, to) = (sockets[side], sockets[1 - side]);
            let now = world.now();
            let mut buffer = [0; 16 << 10];
            while let Ok(bytes @ 1..) = world.stack(PROXY).read(now, from, &mut buffer) {
                self.relayed[side].extend_from_slice(&buffer[..bytes]);
            }
            let at_end = matches!(world.stack(PROXY).read(now, from, &mut buffer), Ok(0));
            while !self.relayed[side].is_empty() {
                match world.stack(PROXY).write(now, to, &self.relayed[side]) {
                    Ok(written) if written > 0 => drop(self.relayed[side].drain(..written)),
                    _ => break,
                }
            }
            if at_end && self.relayed[side].is_empty() && !self.finished[side] {
                self.finished[side] = world.stack(PROXY).shutdown(now, to).is_ok();
            }
        }
    }

    pub fn has_relayed_all(&self) -> bool {
        self.relayed.iter().all(Vec::is_empty)
    }

    pub fn is_over(&self) -> bool {
        (0..2).all(|at| {
            let (end, other) = (&self.ends[at], &self.ends[1 - at]);
            end.written == end.data.len()
                && end.received.len() == other.data.len()
                && (end.saw_end || !other.plan.shuts)
        })
    }

    pub fn run(&mut self, world: &mut World, limit: Duration) {
        self.run_with(world, limit, |_, _| {});
    }

    /// Runs to the end; `look` is called at each turn.
    pub fn run_with(
        &mut self,
        world: &mut World,
        limit: Duration,
        mut look: impl FnMut(&mut World, &mut Self),
    ) {
        let until: Instant = world.now() + limit;
        loop {
            self.drive(world);
            look(world, self);
            if self.is_over() {
                break;
            }
            let moved = world.step();
            assert!(world.now() < until, "late: {}", self.describe(world));
            if !moved {
                assert!(world.advance(), "stuck: {}", self.describe(world));
            }
        }
        self.check();
    }

    /// What has come is what was sent, as far as it goes.
    pub fn check(&self) {
        for at in 0..2 {
            let (end, other) = (&self.ends[at], &self.ends[1 - at]);
            assert!(end.received == other.data[..end.received.len()], "end {at}");
            assert_eq!(end.error, None);
        }
    }

    fn describe(&self, world: &World) -> String {
        let ends = self.ends.iter().map(|end| {
            format!(
                "{}: wrote {} of {}, got {}, end {}, {:?}",
                end.node,
                end.written,
                end.data.len(),
                end.received.len(),
                end.saw_end,
                end.error
            )
        });
        let sockets = [CLIENT, PROXY, BACKEND].map(|node| {
            let infos = world.stack_ref(node).sockets();
            let infos =
                infos.map(|info| format!("{} {} {:?}", info.state, info.remote, info.holder));
            infos.collect::<Vec<_>>().join("; ")
        });
        let proxy = &world.events(PROXY);
        format!(
            "{}\n{}\n{proxy:?}",
            ends.collect::<Vec<_>>().join("\n"),
            sockets.join("\n")
        )
    }
}

impl End {
    fn drive(&mut self, world: &mut World) {
        if self.error.is_some() {
            return;
        }
        let now = world.now();
        while self.written < self.data.len() {
            let end = (self.written + self.plan.piece).min(self.data.len());
            match world
                .stack(self.node)
                .write(now, self.socket, &self.data[self.written..end])
            {
                Ok(written) => self.written += written,
                Err(SocketError::WouldBlock) => break,
                Err(error) => return self.error = Some(error),
            }
        }
        if self.plan.shuts && self.written == self.data.len() && !self.shut {
            self.shut = true;
            world.shutdown(self.node, self.socket);
        }
        if self.saw_end {
            return;
        }
        let mut buffer = [0; 16 << 10];
        loop {
            match world.stack(self.node).read(now, self.socket, &mut buffer) {
                Ok(0) => return self.saw_end = true,
                Ok(bytes) => self.received.extend_from_slice(&buffer[..bytes]),
                Err(SocketError::WouldBlock) => return,
                Err(error) => return self.error = Some(error),
            }
        }
    }
}

/// Whether a node was told that a socket is closed.
pub fn is_closed(world: &World, node: usize, socket: SocketId) -> bool {
    world
        .events(node)
        .iter()
        .any(|event| matches!(event, Event::Closed(id, _) if *id == socket))
}
