use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::thread;

use proptest::prelude::*;

use super::*;

fn taken(wheel: &Wheel, scan: &mut Scan, now: u64) -> Vec<(u64, u32)> {
    let mut taken = Vec::new();
    while let Some(due) = wheel.take_due(scan, now) {
        taken.extend(due.map(|flow| (due.tick, flow)));
    }
    taken
}

#[test]
fn flows_come_in_their_tick() {
    let (wheel, mut scan) = (Wheel::new(10_000), Scan::default());
    assert_eq!(wheel.next(&scan), None);
    assert_eq!(wheel.arm(7, 3), 3);
    assert_eq!(wheel.arm(9_999, 3), 3);
    assert_eq!(wheel.arm(64, 5), 5);
    assert_eq!(wheel.next(&scan), Some(3));
    assert_eq!(taken(&wheel, &mut scan, 2), []);
    assert_eq!(taken(&wheel, &mut scan, 4), [(3, 7), (3, 9_999)]);
    assert_eq!(wheel.next(&scan), Some(5));
    assert_eq!(taken(&wheel, &mut scan, 60), [(5, 64)]);
    assert_eq!(wheel.next(&scan), None);
}

#[test]
fn what_is_past_comes_in_the_next_tick_and_what_is_far_in_the_last() {
    let (wheel, mut scan) = (Wheel::new(100), Scan::default());
    taken(&wheel, &mut scan, 50);
    assert_eq!(wheel.arm(1, 20), 51);
    assert_eq!(wheel.arm(2, 1_000_000), 50 + SLOTS - 1);
    assert_eq!(taken(&wheel, &mut scan, 51), [(51, 1)]);
    // After a long pause, once.
    assert_eq!(taken(&wheel, &mut scan, 100_000).len(), 1);
}

#[test]
fn what_is_disarmed_does_not_come() {
    let (wheel, mut scan) = (Wheel::new(100), Scan::default());
    let at = wheel.arm(1, 10);
    wheel.arm(2, 10);
    wheel.disarm(1, at);
    assert_eq!(taken(&wheel, &mut scan, 20), [(10, 2)]);
}

#[test]
fn a_scan_may_stop_anywhere() {
    let (wheel, mut scan) = (Wheel::new(64 * 64 * 3), Scan::default());
    for flow in (0..64 * 64 * 3).step_by(64) {
        wheel.arm(flow, 1);
    }
    let mut count = 0;
    while let Some(due) = wheel.take_due(&mut scan, 1) {
        assert_eq!(wheel.next(&scan), Some(1), "there may be more");
        // What is armed for the tick meanwhile comes in the next one.
        assert_eq!(wheel.arm(due.first, 1), 2);
        count += 1;
    }
    assert_eq!(count, 64 * 3);
    assert_eq!(taken(&wheel, &mut scan, 2).len(), 64 * 3);
}

#[test]
fn timers_of_a_quarter_million_flows_take_two_mebibytes() {
    assert!(Wheel::bytes(256 << 10) <= (2 << 20) + (64 << 10));
}

#[derive(Clone, Debug)]
enum Step {
    Arm(u32, u64),
    Disarm(u32),
    /// Ticks pass; of what is due, so many words are taken.
    Pass(u64, usize),
}

fn step() -> impl Strategy<Value = Step> {
    let flow = 0u32..300;
    let delay = prop_oneof![3 => 0u64..10, 2 => 50u64..80, 1 => 0u64..1000];
    prop_oneof![
        4 => (flow.clone(), delay).prop_map(|(flow, delay)| Step::Arm(flow, delay)),
        1 => flow.prop_map(Step::Disarm),
        2 => (0u64..4, 0usize..5).prop_map(|(ticks, words)| Step::Pass(ticks, words)),
        1 => (0u64..300, Just(usize::MAX)).prop_map(|(ticks, words)| Step::Pass(ticks, words)),
    ]
}

/// A wheel with the deadlines that its user keeps.
struct Timers {
    wheel: Wheel,
    scan: Scan,
    /// Deadline, and for which tick the wheel is armed.
    flows: BTreeMap<u32, (u64, u64)>,
}

impl Timers {
    /// Takes at most `words` words. Gives the flows that were due, and whether that was all.
    fn expire(&mut self, now: u64, words: usize) -> (Vec<u32>, bool) {
        let mut expired = Vec::new();
        for _ in 0..words {
            let Some(due) = self.wheel.take_due(&mut self.scan, now) else {
                return (expired, true);
            };
            for flow in due {
                let Some((deadline, armed)) = self.flows.get_mut(&flow) else {
                    continue;
                };
                if *deadline <= due.tick {
                    self.flows.remove(&flow);
                    expired.push(flow);
                } else if *armed <= due.tick {
                    *armed = self.wheel.arm(flow, *deadline);
                }
            }
        }
        (expired, false)
    }
}

proptest! {
    /// Whatever is armed, moved and disarmed: what is due is what an ordered map says.
    #[test]
    fn a_wheel_equals_an_ordered_map(steps in prop::collection::vec(step(), 1..200)) {
        let mut timers = Timers { wheel: Wheel::new(300), scan: Scan::default(), flows: BTreeMap::new() };
        let mut model: BTreeMap<u32, u64> = BTreeMap::new();
        let mut now = 0;
        for step in steps.into_iter().chain([Step::Pass(0, usize::MAX), Step::Pass(1100, usize::MAX)]) {
            match step {
                Step::Arm(flow, delay) => {
                    let deadline = now + 1 + delay;
                    model.insert(flow, deadline);
                    let armed = timers.wheel.arm(flow, deadline);
                    timers.flows.insert(flow, (deadline, armed));
                }
                Step::Disarm(flow) => {
                    model.remove(&flow);
                    if let Some((_, armed)) = timers.flows.remove(&flow) {
                        timers.wheel.disarm(flow, armed);
                    }
                }
                Step::Pass(ticks, words) => {
                    for _ in 0..ticks.min(SLOTS + 1) {
                        now += 1;
                    }
                    let (expired, all) = timers.expire(now, words);
                    for flow in expired {
                        let deadline = model.remove(&flow);
                        prop_assert!(deadline.is_some_and(|deadline| deadline <= now), "{flow}");
                    }
                    if all {
                        prop_assert!(model.values().all(|deadline| *deadline > now));
                    }
                    if let Some(earliest) = model.values().min() {
                        let next = timers.wheel.next(&timers.scan);
                        prop_assert!(next.is_some_and(|next| next <= *earliest), "it would be slept through");
                    }
                }
            }
        }
    }
}

const NEVER: u64 = u64::MAX;
const WRITERS: u32 = 3;
/// Flows of each writer. Those of all writers share each word.
const FLOWS: u32 = 512;
const ROUNDS: u32 = 40;

/// What one writer did with one of its flows in one round, and what came of it.
#[derive(Debug)]
struct Armed {
    deadline: AtomicU64,
    /// The tick that the wheel gave.
    promised: AtomicU64,
    fired: AtomicU64,
}

struct Threads {
    wheel: Wheel,
    clock: AtomicU64,
    done: AtomicBool,
    /// For each flow the round it is armed in; a writer goes on when it has fired.
    round: Vec<AtomicU32>,
    /// Of all flows, round by round.
    armed: Vec<Armed>,
}

impl Threads {
    fn new() -> Self {
        let flows = WRITERS * FLOWS;
        let never = || AtomicU64::new(NEVER);
        let armed = || Armed {
            deadline: never(),
            promised: never(),
            fired: never(),
        };
        Self {
            wheel: Wheel::new(flows),
            clock: AtomicU64::new(0),
            done: AtomicBool::new(false),
            round: (0..flows).map(|_| AtomicU32::new(0)).collect(),
            armed: (0..flows * ROUNDS).map(|_| armed()).collect(),
        }
    }

    fn now(&self, flow: u32) -> &Armed {
        let round = self.round[flow as usize].load(SeqCst);
        &self.armed[(flow * ROUNDS + round) as usize]
    }

    fn write(&self, writer: u32) {
        let mut random = u64::from(writer) + 1;
        let mut left = FLOWS * ROUNDS;
        while left > 0 {
            for flow in (writer..WRITERS * FLOWS).step_by(WRITERS as usize) {
                let round = &self.round[flow as usize];
                if self.now(flow).deadline.load(SeqCst) != NEVER {
                    let last = round.load(SeqCst) == ROUNDS - 1;
                    if last || self.now(flow).fired.load(SeqCst) == NEVER {
                        continue;
                    }
                    round.fetch_add(1, SeqCst);
                }
                random = random
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                let at = self.clock.load(SeqCst) + 1 + (random >> 33) % 150;
                let armed = self.now(flow);
                armed.deadline.store(at, SeqCst);
                armed.promised.store(self.wheel.arm(flow, at), SeqCst);
                left -= 1;
            }
            thread::yield_now();
        }
    }

    fn scan(&self) {
        let mut scan = Scan::default();
        loop {
            let last = self.done.load(SeqCst);
            let now = self.clock.fetch_add(1, SeqCst) + 1;
            for _ in 0..40 {
                let Some(due) = self.wheel.take_due(&mut scan, now) else {
                    break;
                };
                due.for_each(|flow| self.fire(flow, due.tick));
            }
            if last && self.wheel.next(&scan).is_none() {
                return;
            }
            thread::yield_now();
        }
    }

    fn fire(&self, flow: u32, tick: u64) {
        let armed = self.now(flow);
        let deadline = armed.deadline.load(SeqCst);
        if deadline == NEVER || armed.fired.load(SeqCst) != NEVER {
            return;
        }
        if deadline <= tick {
            armed.fired.store(tick, SeqCst);
        } else {
            self.wheel.arm(flow, deadline);
        }
    }
}

/// Writers on threads of their own arm timers while another scans: each comes, none before its time, and none later than
/// the tick that the wheel gave when it was armed.
#[test]
fn no_timer_is_lost_between_threads() {
    let threads = Threads::new();
    thread::scope(|scope| {
        let scanner = scope.spawn(|| threads.scan());
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let threads = &threads;
                scope.spawn(move || threads.write(writer))
            })
            .collect();
        for writer in writers {
            writer.join().expect("a writer");
        }
        threads.done.store(true, SeqCst);
        scanner.join().expect("the scanner");
    });
    for armed in &threads.armed {
        let [deadline, promised, fired] =
            [&armed.deadline, &armed.promised, &armed.fired].map(|tick| tick.load(SeqCst));
        assert!(
            deadline <= fired && fired <= deadline.max(promised),
            "{armed:?}"
        );
    }
}
