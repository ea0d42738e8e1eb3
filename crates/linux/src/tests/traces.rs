//! What the driver does with the segments of programs, written down in `tests/traces`. Whatever changes it on purpose shows there what it does;
//! `LONGSHORE_WRITE=1` writes it anew.

use std::sync::Arc;
use std::time::{Duration, Instant};

use attachment::{Direction, Errno, Slab, SlotRef, SlotRequest};
use nic::{FrameMeta, Nic};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use rustix::fs::{MemfdFlags, memfd_create};
use testkit::written;
use wire::SeqNum;
use wire::tcp::Flags;

use super::fenced_random::{case, run};
use super::program::{CIPHER, keys};
use super::rig::{
    OURS, OneSocket, PAIRS, PEER, SMALL, SUPER, Socket, device, finished, flow, segment_with,
};
use crate::LinuxFunction;

/// The counters that have counted something.
fn counted(function: &LinuxFunction) -> String {
    let counters = function.counters().iter().filter(|(_, count)| *count > 0);
    let counters: Vec<_> = counters
        .map(|(name, count)| format!("{name} {count}"))
        .collect();
    counters.join(", ")
}

/// A line for each case, and all of the first ones.
#[test]
fn programs_of_all_kinds() {
    const WHOLE: usize = 3;
    let mut runner = TestRunner::deterministic();
    let mut lines = Vec::new();
    for number in 0..60 {
        let case = case().new_tree(&mut runner).expect("a case").current();
        let mut program = case.program();
        program.trace = Some(Vec::new());
        run(&mut program, case).expect("it passes");
        let trace = program.trace.take().expect("it was traced");
        let counted = counted(&program.function);
        let sum = written::sum_lines(&trace);
        lines.push(format!("{} segments {sum:016x}, {}", trace.len(), counted));
        if number < WHOLE {
            let name = format!("program_{number}");
            written::compare(
                env!("CARGO_MANIFEST_DIR"),
                &name,
                &written::shorten(trace, 60),
            );
        }
    }
    written::compare(env!("CARGO_MANIFEST_DIR"), "programs", &lines);
}

/// What happens to a driver of which Linux has one socket; numbers are few, so that connections come about.
#[derive(Clone, Debug)]
enum Step {
    /// A segment, of Linux's or of the peer's: sequence number, acknowledgment, flags, bytes, size of packets, a byte that is changed.
    Segment {
        is_ours: bool,
        pair: usize,
        numbers: (u32, u32),
        flags: u8,
        len: usize,
        mss: u16,
        changed: Option<(usize, u8)>,
    },
    /// The library gives keys; the socket has sent and received up to here.
    Keys(Direction, u32, u32),
    /// The socket is another one.
    Socket(u64, bool),
    Wait(u64),
    Sleep,
}

fn step() -> impl Strategy<Value = Step> {
    let number = || prop_oneof![4 => Just(1u32), 2 => Just(0u32), 1 => 0u32..400];
    let flags = prop_oneof![
        4 => Just(Flags::ACK.0),
        2 => Just(Flags::SYN.0),
        2 => Just(Flags::SYN.union(Flags::ACK).0),
        1 => any::<u8>(),
    ];
    let changed = prop::option::weighted(0.15, (0usize..70, any::<u8>()));
    let segment = (
        any::<bool>(),
        0usize..2,
        (number(), number()),
        flags,
        prop_oneof![2 => Just(0usize), 1 => 0usize..100, 1 => 0usize..4_000],
        prop_oneof![Just(1_400u16), 1u16..600],
        changed,
    );
    let segment =
        segment.prop_map(
            |(is_ours, pair, numbers, flags, len, mss, changed)| Step::Segment {
                is_ours,
                pair,
                numbers,
                flags,
                len,
                mss,
                changed,
            },
        );
    let direction = prop_oneof![Just(Direction::Transmit), Just(Direction::Receive)];
    prop_oneof![
        12 => segment,
        2 => (direction, number(), number()).prop_map(|(direction, write, read)| Step::Keys(direction, write, read)),
        1 => (0u64..3, any::<bool>()).prop_map(|(cookie, is_first)| Step::Socket(cookie, is_first)),
        1 => prop_oneof![0u64..2_000, 0u64..200_000].prop_map(Step::Wait),
        1 => Just(Step::Sleep),
    ]
}

struct Driver {
    nic: Nic,
    function: LinuxFunction,
    socket: OneSocket,
    slab: Arc<Slab>,
    now: Instant,
}

impl Driver {
    /// Whose socket has opened its connection, or not.
    fn new(is_open: bool) -> Driver {
        let now = Instant::now();
        let socket = OneSocket::new(Socket::new(flow(PAIRS[0]), 7, (SeqNum(1), SeqNum(1))));
        let state = memfd_create("state", MemfdFlags::CLOEXEC).expect("memory");
        let (mut nic, mut function) = device(now, SUPER, (&state, SMALL), socket.clone());
        if is_open {
            socket.open(&mut nic, &mut function, now);
        }
        let slab = Arc::new(Slab::create(64).expect("memory"));
        Driver {
            nic,
            function,
            socket,
            slab,
            now,
        }
    }

    /// Does a step; tells what it gives.
    fn step(&mut self, step: Step) -> String {
        match step {
            Step::Segment {
                is_ours,
                pair,
                numbers: (seq, ack),
                flags,
                len,
                mss,
                changed,
            } => {
                let (ends, flow) = match is_ours {
                    true => ((OURS, PEER), flow(PAIRS[pair])),
                    false => ((PEER, OURS), flow(PAIRS[pair]).reversed()),
                };
                let payload: Vec<u8> = (0..len).map(|at| at as u8).collect();
                let header = (seq, ack, Flags(flags));
                let mut frame = segment_with(ends, &flow, header, &payload, mss);
                if !is_ours {
                    frame = finished(&frame);
                }
                if let Some((at, value)) = changed
                    && let Some(byte) = frame.0.get_mut(at)
                {
                    *byte ^= value;
                }
                match is_ours {
                    true => self.function.handle_frame(self.now, &frame.0, frame.1),
                    false => self.nic.handle_frame(self.now, &frame.0, frame.1),
                }
                format!("{:?} {seq}:{} ack {ack}", Flags(flags), seq as usize + len)
            }
            Step::Keys(direction, write, read) => {
                let facts = self.socket.with(|socket| {
                    (socket.write, socket.read) = (SeqNum(write), SeqNum(read));
                    (socket.unacknowledged, socket.receive_next) = (socket.write, socket.read);
                    socket.facts()
                });
                let (index, generation) = self.slab.claim().expect("a slot");
                let order = SlotRequest::SetKeys {
                    slot: SlotRef::new(&self.slab, index, generation).expect("a slot"),
                    direction,
                    info: keys(CIPHER, index as u8),
                    resume: None,
                    socket: facts,
                };
                let answer = self.function.handle_slot_request(self.now, &order);
                {
                    let refused = answer.result.map_err(Errno::raw_os_error);
                    format!("keys {direction:?}: {refused:?} {}", answer.tcpsn.0)
                }
            }
            Step::Socket(cookie, is_first) => {
                let pair = PAIRS[usize::from(!is_first)];
                let socket = Socket::new(flow(pair), cookie, (SeqNum(1), SeqNum(1)));
                self.socket.with(|before| *before = socket);
                format!("socket {cookie}")
            }
            Step::Wait(millis) => {
                self.now += Duration::from_millis(millis);
                self.function.handle_timeout(self.now);
                let next = self.function.poll_timeout();
                format!(
                    "later: {:?}",
                    next.map(|at| at.saturating_duration_since(self.now))
                )
            }
            Step::Sleep => {
                let sleeps = self.function.prepare_sleep();
                self.function.cancel_sleep();
                format!("sleeps: {sleeps}")
            }
        }
    }

    /// All that moves.
    fn moved(&mut self) -> String {
        let mut told = String::new();
        let mut tell = |what: &str, frame: &[u8], meta: FrameMeta| {
            told += &format!(
                " | {what} {} {:016x} gso {} {:?} {}",
                frame.len(),
                written::sum(frame),
                meta.gso_size,
                meta.needs_checksum,
                meta.checksum_valid
            );
        };
        let mut out = vec![0; 70_000];
        for _ in 0..2 {
            self.function.publish();
            while let Some((len, meta)) = self.nic.poll_transmit(self.now, &mut out) {
                tell("leaves", &out[..len], meta);
            }
            self.nic.flush(self.now);
            while let Some((frame, meta)) = self.function.poll_frame(self.now) {
                tell("comes", frame, meta);
            }
        }
        told
    }
}

/// A line for each driver, and all of the first ones.
#[test]
fn segments_of_all_kinds() {
    const WHOLE: usize = 2;
    let mut runner = TestRunner::deterministic();
    let mut lines = Vec::new();
    for number in 0..80 {
        let steps = prop::collection::vec(step(), 50).new_tree(&mut runner);
        let mut driver = Driver::new(number % 4 > 0);
        let trace: Vec<_> = steps
            .expect("steps")
            .current()
            .into_iter()
            .map(|step| driver.step(step) + &driver.moved())
            .collect();
        let counted = counted(&driver.function);
        lines.push(format!("{:016x}, {}", written::sum_lines(&trace), counted));
        if number < WHOLE {
            let name = format!("segments_{number}");
            written::compare(env!("CARGO_MANIFEST_DIR"), &name, &trace);
        }
    }
    written::compare(env!("CARGO_MANIFEST_DIR"), "segments", &lines);
}
