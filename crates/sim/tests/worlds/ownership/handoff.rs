//! Connections that the host hands off to the NIC and takes back, in every order of events.

use std::time::Instant;

use host::{CloseReason, Event, Holder, ListenOptions, ListenerId, SocketError, SocketId, Stack};
use sim::explore::{Choices, Explored};

use super::moves::{self, Moved, Moves};
use super::peer::{Plan, message};
use super::world::{App, Broken, HOST_IP, Owner, World};

/// How the server leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leaves {
    /// When it has answered everything.
    First,
    /// When the client has.
    Last,
    /// It shuts down when it has answered everything, and closes at the end of the stream.
    HalfClosed,
    /// It resets the connection when it has answered everything.
    Abort,
}

/// A server: it answers each message, and hands its connection off meanwhile.
struct Server {
    listener: Option<ListenerId>,
    socket: Option<SocketId>,
    case: Case,
    moved: Moved,
    read: u32,
    written: u32,
    at_end: bool,
    has_shut: bool,
    is_closed: bool,
    closed: Option<CloseReason>,
}

#[derive(Clone, Copy, Debug)]
struct Case {
    client: Plan,
    /// Bytes of each answer.
    response: u32,
    leaves: Leaves,
    /// At this turn of the server's, and the other so many turns after it.
    hand_off: u32,
    restore: Option<u32>,
    /// And once more after that.
    again: bool,
    /// Connections that the NIC has room for.
    room: u32,
}

impl Server {
    fn new(case: Case) -> Self {
        Self {
            listener: None,
            socket: None,
            case,
            moved: Moved::default(),
            read: 0,
            written: 0,
            at_end: false,
            has_shut: false,
            is_closed: false,
            closed: None,
        }
    }

    /// Bytes that it writes in all.
    fn response(&self) -> u32 {
        self.case.client.messages * self.case.response
    }

    /// Hands off or takes back if it is time for that.
    fn change_hands(&mut self, now: Instant, stack: &mut Stack, socket: SocketId) -> bool {
        let Case {
            hand_off,
            restore,
            again,
            ..
        } = self.case;
        let moves = Moves {
            hand_off,
            restore,
            again,
        };
        self.moved.turn(moves, now, stack, socket)
    }

    fn talk(&mut self, now: Instant, stack: &mut Stack, socket: SocketId) -> bool {
        let mut moved = false;
        let mut buffer = [0; 4096];
        while !self.at_end {
            match stack.read(now, socket, &mut buffer) {
                Ok(0) => self.at_end = true,
                Ok(bytes) => {
                    assert_eq!(buffer[..bytes], message(1, self.read, bytes as u32));
                    self.read += bytes as u32;
                }
                Err(SocketError::WouldBlock | SocketError::Closed(_)) => break,
                Err(error) => panic!("{error}"),
            }
            moved = true;
        }
        let due = self.read / self.case.client.message * self.case.response;
        while self.written < due {
            let rest = message(2, self.written, due - self.written);
            match stack.write(now, socket, &rest) {
                Ok(bytes) => self.written += bytes as u32,
                Err(SocketError::WouldBlock | SocketError::Closed(_)) => break,
                Err(error) => panic!("{error}"),
            }
            moved = true;
        }
        moved
    }

    fn leave(&mut self, now: Instant, stack: &mut Stack, socket: SocketId) -> bool {
        let is_done = self.written == self.response();
        let left = match self.case.leaves {
            _ if self.closed.is_some() => stack.close(now, socket),
            Leaves::First if is_done => stack.close(now, socket),
            Leaves::Last | Leaves::HalfClosed if is_done && self.at_end => stack.close(now, socket),
            Leaves::HalfClosed if is_done && !self.has_shut => {
                self.has_shut = true;
                stack.shutdown(now, socket).expect("it is open");
                return true;
            }
            Leaves::Abort if is_done => stack.abort(now, socket),
            _ => return false,
        };
        left.expect("it is held");
        self.is_closed = true;
        true
    }
}

impl App for Server {
    fn is_between(&self, stack: &Stack) -> bool {
        let info = self.socket.and_then(|socket| stack.info(socket));
        self.moved.turns > self.case.hand_off
            && info.is_some_and(|info| info.holder == Holder::Host)
            && self.moved.restored == 0
    }

    fn drive(&mut self, now: Instant, stack: &mut Stack) -> bool {
        let mut moved = false;
        while let Some(event) = stack.poll_event() {
            moved = true;
            if let Event::Closed(_, reason) = event {
                self.closed = Some(reason);
            }
        }
        if self.socket.is_none()
            && let Some(listener) = self.listener
        {
            self.socket = stack.accept(listener);
            moved |= self.socket.is_some();
        }
        let Some(socket) = self.socket.filter(|_| !self.is_closed) else {
            return moved;
        };
        moved |= self.change_hands(now, stack, socket);
        moved |= self.talk(now, stack, socket);
        moved | self.leave(now, stack, socket)
    }
}

/// What has happened in all runs.
#[derive(Debug, Default)]
struct Seen {
    handoffs: u64,
    restores: u64,
    refused: u64,
}

fn run(case: Case, broken: Option<Broken>, choices: &mut Choices<'_>, tell: bool) -> Seen {
    let plans = [case.client, Plan::default()];
    let mut world = World::new(host::Accel::NONE, plans, Server::new(case), |nic| {
        nic.toe.hard_limit = case.room;
    });
    world.may_reset = case.leaves == Leaves::Abort;
    world.is_strict = true;
    world.broken = broken;
    let listener = world
        .stack
        .listen((HOST_IP, 80).into(), ListenOptions::default());
    world.app.listener = Some(listener.expect("the port is free"));
    if tell {
        world.keep_log();
    }
    world.settle_idle();
    world.connect();
    world.run(choices, |world| {
        // A reset may be lost, and then the client hears nothing more.
        let is_over = case.leaves == Leaves::Abort
            || world.peers[0].as_ref().is_some_and(|peer| peer.is_over());
        is_over && world.app.is_closed && world.stack.sockets().count() == 1
    });
    world.settle_idle();
    judge(&world);
    let counters = world.nic_counters();
    Seen {
        handoffs: counters.toe_handoffs,
        restores: counters.toe_restored_asked,
        refused: counters.toe_refused_unsupported,
    }
}

/// What must hold at the end, whatever came in between.
fn judge(world: &World<Server>) {
    let app = &world.app;
    let story = || world.story();
    let Some(peer) = &world.peers[0] else {
        panic!("it was there");
    };
    assert_eq!(app.read, peer.sent(), "{}", story());
    if app.case.leaves == Leaves::Abort {
        assert!(peer.received <= app.response(), "{}", story());
    } else {
        assert_eq!(peer.received, app.response(), "{}", story());
        assert!(peer.saw_fin, "{}", story());
        assert!(
            matches!(peer.ended, None | Some(tcp::CloseReason::Graceful)),
            "{}",
            story()
        );
        assert!(
            matches!(app.closed, None | Some(CloseReason::Graceful)),
            "{}",
            story()
        );
    }
    if !world.is_disturbed {
        // Nothing was lost on the wire, and nobody waited too long: a retransmission, or a second answer, were the handoff's
        // fault.
        let again = (peer.resent, world.repeated, world.answered_twice);
        assert_eq!(again, (0, 0, 0), "{}", story());
    }
    // Each change is asked for: who has given a connection away says nothing more.
    let owners = &world.wires[0].owners;
    let counters = world.nic_counters();
    let changes = 2 * counters.toe_handoffs;
    assert!(
        owners.len() as u64 <= 1 + changes,
        "{owners:?}\n{}",
        story()
    );
    assert!(
        owners.first() != Some(&Owner::Nic),
        "{owners:?}\n{}",
        story()
    );
    // A connection in TIME-WAIT is the host's.
    assert_eq!(counters.toe_connections, 0, "{}", story());
}

fn explore_all(case: Case, broken: Option<Broken>, deviations: usize) -> (Explored, Seen) {
    let mut seen = Seen::default();
    let explored = moves::explore_all(deviations, |choices, tell| {
        let of_run = run(case, broken, choices, tell);
        seen.handoffs += of_run.handoffs;
        seen.restores += of_run.restores;
        seen.refused += of_run.refused;
    });
    (explored, seen)
}

/// Two requests and their answers; the client closes when the server has.
const TALK: Plan = Plan {
    message: 300,
    messages: 2,
    answers: 400,
    responds: false,
    closes_first: false,
    closes_at: 0,
};

const CASE: Case = Case {
    client: TALK,
    response: 400,
    leaves: Leaves::First,
    hand_off: 1,
    restore: None,
    again: false,
    room: 4,
};

/// The client sends all at once and closes its direction.
const RUSH: Plan = Plan {
    messages: 3,
    answers: 0,
    closes_first: true,
    ..TALK
};

#[test]
fn a_conversation_is_handed_off_whole() {
    for hand_off in 0..5 {
        let case = Case { hand_off, ..CASE };
        let deviations = 1 + usize::from(hand_off == 1);
        let (explored, seen) = explore_all(case, None, deviations);
        // Later ones meet the close, and are cancelled.
        let most = if hand_off < 2 { explored.runs / 2 } else { 0 };
        assert!(seen.handoffs > most, "{explored:?} {seen:?}");
    }
}

#[test]
fn whoever_closes_first() {
    let mut handoffs = 0;
    for leaves in [
        Leaves::First,
        Leaves::Last,
        Leaves::HalfClosed,
        Leaves::Abort,
    ] {
        for client in [TALK, RUSH] {
            let closes_first = leaves == Leaves::Last;
            let client = Plan {
                closes_first: client.closes_first || closes_first,
                ..client
            };
            let case = Case {
                client,
                leaves,
                ..CASE
            };
            let (explored, seen) = explore_all(case, None, 1);
            // In a rush the server has left before the NIC holds the connection.
            let most = if client.closes_at == 0 && client.messages == TALK.messages {
                explored.runs / 2
            } else {
                0
            };
            handoffs += seen.handoffs;
            assert!(seen.handoffs >= most, "{explored:?} {seen:?}");
        }
    }
    assert!(handoffs > 0);
}

/// Also before the NIC holds it (cancelled), and while it closes.
#[test]
fn it_is_taken_back_at_any_time() {
    let mut restores = 0;
    for (after, deviations) in [(0, 2), (1, 1), (2, 2), (3, 1), (4, 1), (6, 1), (9, 1)] {
        for again in [false, true] {
            let case = Case {
                restore: Some(after),
                again,
                ..CASE
            };
            restores += explore_all(case, None, deviations).1.restores;
        }
    }
    assert!(restores > 1_000, "{restores}");
}

#[test]
fn a_rush_is_taken_back_at_any_time() {
    for leaves in [Leaves::First, Leaves::Last, Leaves::Abort] {
        for after in 0..6 {
            let case = Case {
                client: RUSH,
                leaves,
                restore: Some(after),
                ..CASE
            };
            explore_all(case, None, 1);
        }
    }
}

#[test]
fn a_refusal_changes_nothing() {
    let case = Case { room: 0, ..CASE };
    let (explored, seen) = explore_all(case, None, 2);
    assert_eq!(seen.handoffs, 0);
    assert!(seen.refused > explored.runs / 2, "{explored:?} {seen:?}");
}

/// The check finds what it is for.
#[test]
fn a_broken_rule_is_found() {
    for broken in [Broken::LosesHeld, Broken::BothAnswer, Broken::SendsOn] {
        let is_found = |after: &u32| {
            let case = Case {
                restore: Some(*after),
                ..CASE
            };
            std::panic::catch_unwind(|| explore_all(case, Some(broken), 1)).is_err()
        };
        assert!([4, 6, 9].iter().any(is_found), "{broken:?}");
    }
}
