//! Closes that the NIC finishes, in every order of events.

use std::time::Instant;

use host::{Accel, Event, ListenOptions, ListenerId, SocketError, SocketId, Stack};
use sim::explore::{Bounds, Choices, explore, replay};

use super::peer::{Plan, message};
use super::world::{App, HOST_IP, Owner, World};

/// A server: it reads a request, answers it and closes.
pub struct Server {
    listener: Option<ListenerId>,
    socket: Option<SocketId>,
    read: usize,
    request: usize,
    response: Vec<u8>,
    written: usize,
    is_closed: bool,
    /// Closes a turn after it has answered.
    closes_late: bool,
}

impl App for Server {
    fn drive(&mut self, now: Instant, stack: &mut Stack) -> bool {
        let mut moved = false;
        while let Some(event) = stack.poll_event() {
            moved = true;
            if let Event::Closed(_, reason) = event {
                panic!("closed before the response: {reason}");
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
        let mut buffer = [0; 4096];
        while self.read < self.request {
            match stack.read(now, socket, &mut buffer) {
                Ok(bytes) => self.read += bytes,
                Err(SocketError::WouldBlock) => return moved,
                Err(error) => panic!("{error}"),
            }
        }
        while self.written < self.response.len() {
            match stack.write(now, socket, &self.response[self.written..]) {
                Ok(bytes) => self.written += bytes,
                Err(SocketError::WouldBlock) => return moved,
                Err(error) => panic!("{error}"),
            }
        }
        // What the response brings back may then be on its way up when the connection goes down.
        if std::mem::take(&mut self.closes_late) {
            return true;
        }
        self.is_closed = true;
        stack.close(now, socket).expect("it is held");
        true
    }
}

#[derive(Clone, Copy)]
struct Case {
    accel: Accel,
    /// The client closes its direction behind its request; if the server closes late, when it has the response.
    half_closes: bool,
    closes_late: bool,
    response: u32,
    /// Connections that the NIC has room for.
    room: u32,
    /// Who may be heard, in this order.
    owners: &'static [Owner],
}

const TEARDOWN: Accel = Accel {
    teardown: true,
    ..Accel::NONE
};

fn run(case: Case, choices: &mut Choices<'_>, tell: bool) {
    let request = 300;
    let plan = Plan {
        message: request,
        messages: 1,
        answers: 0,
        responds: false,
        closes_first: case.half_closes,
        closes_at: if case.closes_late { case.response } else { 0 },
    };
    let app = Server {
        listener: None,
        socket: None,
        read: 0,
        request: request as usize,
        response: message(2, 0, case.response),
        written: 0,
        is_closed: false,
        closes_late: case.closes_late,
    };
    let mut world = World::new(case.accel, [plan, Plan::default()], app, |nic| {
        nic.accel.closing = case.room;
    });
    let options = ListenOptions {
        defer: true,
        ..ListenOptions::default()
    };
    let listener = world.stack.listen((HOST_IP, 80).into(), options);
    world.app.listener = Some(listener.expect("the port is free"));
    if tell {
        world.keep_log();
    }
    world.settle_idle();
    world.connect();
    world.run(choices, |world| {
        let is_over = world.peers[0].as_ref().is_some_and(|peer| peer.is_over());
        is_over && world.app.is_closed && world.stack.sockets().count() == 1
    });
    let Some(peer) = &world.peers[0] else {
        panic!("it was there");
    };
    assert_eq!(peer.received, case.response, "{}", world.story());
    assert!(peer.saw_fin, "{}", world.story());
    assert!(
        matches!(peer.ended, None | Some(tcp::CloseReason::Graceful)),
        "{}",
        world.story()
    );
    if !world.is_disturbed {
        assert_eq!((peer.resent, world.repeated), (0, 0), "{}", world.story());
    }
    let heard = &world.wires[0].owners;
    assert!(
        case.owners.starts_with(heard) || case.owners[1..].starts_with(heard),
        "{heard:?}\n{}",
        world.story()
    );
}

fn check(case: Case, deviations: usize) {
    let bounds = Bounds {
        depth: 80,
        deviations,
    };
    let explored = explore(bounds, |choices| {
        let found =
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run(case, choices, false)));
        if found.is_err() {
            let script = choices.script();
            replay(bounds, &script, |choices| run(case, choices, true));
            panic!("{script:?}");
        }
    });
    assert!(explored.runs > 50, "{explored:?}");
}

#[test]
fn a_close_is_handed_over_whole() {
    for half_closes in [false, true] {
        for response in [200, 4_000] {
            let case = Case {
                accel: TEARDOWN,
                half_closes,
                closes_late: false,
                response,
                room: 16,
                owners: &[Owner::Host, Owner::Nic],
            };
            check(case, 2);
        }
    }
}

#[test]
fn a_close_is_handed_over_while_acknowledgments_come() {
    for half_closes in [false, true] {
        let case = Case {
            accel: TEARDOWN,
            half_closes,
            closes_late: true,
            response: 4_000,
            room: 16,
            owners: &[Owner::Host, Owner::Nic],
        };
        check(case, 2);
    }
}

#[test]
fn a_close_that_is_refused_is_the_hosts() {
    for half_closes in [false, true] {
        let case = Case {
            accel: TEARDOWN,
            half_closes,
            closes_late: true,
            response: 200,
            room: 0,
            owners: &[Owner::Host],
        };
        check(case, 2);
    }
}

/// The NIC answers the SYN, the host the request, the NIC finishes; or the host only tells the NIC what to answer.
#[test]
fn a_connection_of_the_nics_is_handed_over_whole() {
    for lazy_tcb in [false, true] {
        let case = Case {
            accel: Accel {
                setup: true,
                lazy_tcb,
                ..TEARDOWN
            },
            half_closes: false,
            closes_late: false,
            response: 200,
            room: 16,
            owners: &[Owner::Nic, Owner::Host, Owner::Nic],
        };
        check(case, 2);
    }
}
