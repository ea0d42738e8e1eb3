//! Splices, in every order of events.

use std::time::Instant;

use host::{
    Accel, Event, ListenOptions, ListenerId, SocketError, SocketId, SpliceEnd, SpliceHandle, Stack,
};
use sim::explore::{Bounds, Choices, Explored, explore};

use super::peer::Plan;
use super::world::{App, HOST_IP, Owner, World, peer_ip};

/// A proxy: it relays, and splices once it has relayed so much.
pub struct Proxy {
    listener: Option<ListenerId>,
    pub sockets: [Option<SocketId>; 2],
    is_connected: bool,
    held: [Vec<u8>; 2],
    relayed: [usize; 2],
    finished: [bool; 2],
    splice_after: usize,
    /// Takes the splice back at the so-manieth of its turns after that.
    back_after: Option<u32>,
    turns: u32,
    splice: Option<SpliceHandle>,
    has_spliced: bool,
    pub spliced: u32,
    pub refused: u32,
    pub taken_back: u32,
    is_over: [bool; 2],
}

impl Proxy {
    fn new(splice_after: usize, back_after: Option<u32>) -> Self {
        Self {
            listener: None,
            sockets: [None; 2],
            is_connected: false,
            held: Default::default(),
            relayed: [0; 2],
            finished: [false; 2],
            splice_after,
            back_after,
            turns: 0,
            splice: None,
            has_spliced: false,
            spliced: 0,
            refused: 0,
            taken_back: 0,
            is_over: [false; 2],
        }
    }

    fn take(&mut self, event: &Event) {
        match event {
            Event::Connected(_) => self.is_connected = true,
            Event::Spliced(_) => self.spliced += 1,
            Event::SpliceRefused(..) => {
                self.refused += 1;
                self.splice = None;
            }
            Event::SpliceEnded(_, report) => {
                self.splice = None;
                match report.reason {
                    SpliceEnd::Finished => {
                        self.finished = [true; 2];
                        self.is_over = [true; 2];
                    }
                    SpliceEnd::TakenBack => self.taken_back += 1,
                    reason => panic!("{reason:?}"),
                }
            }
            Event::Closed(id, _) => {
                for (socket, is_over) in self.sockets.iter().zip(&mut self.is_over) {
                    *is_over |= *socket == Some(*id);
                }
            }
            _ => {}
        }
    }

    fn relay(&mut self, now: Instant, stack: &mut Stack, [a, b]: [SocketId; 2]) -> bool {
        let mut moved = false;
        for (side, (from, to)) in [(a, b), (b, a)].into_iter().enumerate() {
            let mut buffer = [0; 4096];
            let mut at_end = false;
            loop {
                match stack.read(now, from, &mut buffer) {
                    Ok(0) => {
                        at_end = true;
                        break;
                    }
                    Ok(bytes) => {
                        moved = true;
                        self.relayed[side] += bytes;
                        self.held[side].extend_from_slice(&buffer[..bytes]);
                    }
                    Err(_) => break,
                }
            }
            while !self.held[side].is_empty() {
                match stack.write(now, to, &self.held[side]) {
                    Ok(bytes) if bytes > 0 => {
                        moved = true;
                        self.held[side].drain(..bytes);
                    }
                    _ => break,
                }
            }
            if at_end && self.held[side].is_empty() && !self.finished[side] {
                self.finished[side] = stack.shutdown(now, to).is_ok();
                moved |= self.finished[side];
            }
        }
        moved
    }
}

impl App for Proxy {
    fn drive(&mut self, now: Instant, stack: &mut Stack) -> bool {
        let mut moved = false;
        while let Some(event) = stack.poll_event() {
            moved = true;
            self.take(&event);
        }
        if let Some(listener) = self.listener
            && let Some(front) = stack.accept(listener)
        {
            moved = true;
            stack.close_listener(listener).expect("it listens");
            self.listener = None;
            let back = stack.connect(now, (peer_ip(1), 81).into());
            self.sockets = [Some(front), Some(back.expect("a route"))];
        }
        let [Some(a), Some(b)] = self.sockets else {
            return moved;
        };
        if !self.is_connected {
            return moved;
        }
        if self.splice.is_none() {
            moved |= self.relay(now, stack, [a, b]);
        }
        let wants = !self.has_spliced && self.relayed[0] >= self.splice_after;
        if wants && self.held.iter().all(Vec::is_empty) {
            self.has_spliced = true;
            self.splice = stack.splice(now, a, b, Default::default()).ok();
            moved |= self.splice.is_some();
        } else if let (Some(splice), Some(after)) = (self.splice, self.back_after) {
            self.turns += 1;
            if self.turns > after {
                self.back_after = None;
                match stack.unsplice(now, splice) {
                    Ok(()) | Err(SocketError::NotFound) => moved = true,
                    Err(error) => panic!("{error}"),
                }
            }
        }
        if self.is_over == [true; 2] {
            for socket in &mut self.sockets {
                let closed = socket.take().map(|socket| stack.close(now, socket));
                assert_eq!(closed, Some(Ok(())));
            }
            moved = true;
        }
        moved
    }
}

/// What is explored.
#[derive(Clone, Copy)]
struct Case {
    plans: [Plan; 2],
    splice_after: usize,
    back_after: Option<u32>,
    /// Splices that the NIC has room for.
    room: u32,
}

const TALK: [Plan; 2] = [
    Plan {
        message: 300,
        messages: 2,
        answers: 200,
        responds: false,
        closes_first: true,
        closes_at: 0,
    },
    Plan {
        message: 200,
        messages: 2,
        answers: 300,
        responds: true,
        closes_first: false,
        closes_at: 0,
    },
];

/// Both send all that they have at once, and close.
const RUSH: [Plan; 2] = [
    Plan {
        message: 300,
        messages: 3,
        answers: 1,
        responds: true,
        closes_first: true,
        closes_at: 0,
    },
    Plan {
        message: 200,
        messages: 3,
        answers: 0,
        responds: false,
        closes_first: true,
        closes_at: 0,
    },
];

fn check(case: Case, bounds: Bounds) -> (Explored, [u64; 3]) {
    let mut seen = [0; 3];
    let explored = explore(bounds, |choices| {
        let found =
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run(case, choices, false)));
        match found {
            Ok(proxy) => {
                seen[0] += u64::from(proxy.0);
                seen[1] += u64::from(proxy.1);
                seen[2] += u64::from(proxy.2);
            }
            Err(_) => {
                // Once more, to tell the story.
                let script = choices.script();
                explore_one(case, bounds, &script);
                panic!("{script:?}");
            }
        }
    });
    (explored, seen)
}

fn explore_one(case: Case, bounds: Bounds, script: &[usize]) {
    sim::explore::replay(bounds, script, |choices| {
        run(case, choices, true);
    });
}

/// One run. How often it was spliced, refused and taken back.
fn run(case: Case, choices: &mut Choices<'_>, tell: bool) -> (u32, u32, u32) {
    let accel = Accel {
        splice: true,
        ..Accel::NONE
    };
    let app = Proxy::new(case.splice_after, case.back_after);
    let mut world = World::new(accel, case.plans, app, |nic| nic.accel.splices = case.room);
    let listener = world
        .stack
        .listen((HOST_IP, 80).into(), ListenOptions::default());
    world.app.listener = Some(listener.expect("the port is free"));
    if tell {
        world.keep_log();
    }
    world.connect();
    world.settle(|world| world.app.is_connected);
    world.run(choices, |world| {
        let mut peers = world.peers.iter().flatten();
        let is_over = peers.all(|peer| peer.is_over());
        is_over && world.stack.sockets().count() == 0
    });
    let [Some(a), Some(b)] = &world.peers else {
        panic!("both were there");
    };
    for (peer, other) in [(a, b), (b, a)] {
        assert_eq!(peer.received, other.sent(), "{}", world.story());
        assert!(peer.saw_fin, "{}", world.story());
        assert!(
            matches!(peer.ended, None | Some(tcp::CloseReason::Graceful)),
            "{}",
            world.story()
        );
        if !world.is_disturbed {
            // Nothing was lost on the wire, and nobody waited too long: a retransmission were the hand-over's fault.
            assert_eq!((peer.resent, world.repeated), (0, 0), "{}", world.story());
        }
    }
    for owners in world.wires.iter().map(|wire| &wire.owners) {
        // The host, then the NIC, then perhaps the host again: never by turns, so never both.
        let allowed = [Owner::Host, Owner::Nic, Owner::Host];
        assert!(allowed.starts_with(owners), "{owners:?}\n{}", world.story());
    }
    let app = &world.app;
    (app.spliced, app.refused, app.taken_back)
}

fn bounds(deviations: usize) -> Bounds {
    Bounds {
        depth: 120,
        deviations,
    }
}

#[test]
fn a_conversation_is_handed_over_whole() {
    let case = Case {
        plans: TALK,
        splice_after: 300,
        back_after: None,
        room: 4,
    };
    let (explored, [spliced, _, ended]) = check(case, bounds(2));
    assert!(spliced > explored.runs / 2, "{explored:?} {spliced}");
    assert_eq!(ended, 0);
}

#[test]
fn a_rush_is_handed_over_whole() {
    let case = Case {
        plans: RUSH,
        splice_after: 0,
        back_after: None,
        room: 4,
    };
    let (explored, [spliced, ..]) = check(case, bounds(2));
    assert!(spliced > explored.runs / 2, "{explored:?} {spliced}");
}

#[test]
fn a_refusal_changes_nothing() {
    let case = Case {
        plans: TALK,
        splice_after: 300,
        back_after: None,
        room: 0,
    };
    let (explored, [spliced, refused, _]) = check(case, bounds(2));
    assert_eq!(spliced, 0);
    assert!(refused > explored.runs / 2);
}

#[test]
fn a_splice_is_taken_back_at_any_time() {
    let mut taken_back = 0;
    for (after, deviations) in [(0, 1), (1, 1), (2, 2), (3, 1), (4, 2), (6, 1), (9, 1)] {
        let case = Case {
            plans: TALK,
            splice_after: 300,
            back_after: Some(after),
            room: 4,
        };
        let (_, seen) = check(case, bounds(deviations));
        taken_back += seen[2];
    }
    assert!(taken_back > 1_000, "{taken_back}");
}
