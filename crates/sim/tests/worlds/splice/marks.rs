//! Packets that a router marks around the beginning and the end of a splice (ECN, RFC 3168 §6.1.3): their sender hears of it until it has reduced
//! its window, from the host or the NIC, which run the connection by turns.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use host::SpliceHandle;
use sim::{Fate, World};
use tcp::EcnMode;
use testkit::frames;
use wire::Ecn;
use wire::tcp::Flags;

use super::rig::{CLIENT, Joined, PROXY, Proxied as _, world_with};

/// Less than a retransmission takes.
const SHORTLY: Duration = Duration::from_millis(50);

/// What the path between client and proxy does, and has seen.
#[derive(Default)]
struct Path {
    marks: Cell<bool>,
    /// What tells the client of marks is lost, and what it acknowledges with it.
    hides: Cell<bool>,
    told: Cell<u32>,
}

impl Path {
    fn fate(&self, from: usize, to: usize, frame: &mut [u8]) -> Fate {
        let Ok(parsed) = wire::packet::parse(frame) else {
            return Fate::Pass;
        };
        if from == CLIENT && parsed.tcp.ecn == Ecn::Ect0 && self.marks.get() {
            frames::mark(frame, Ecn::Ce);
        }
        let is_echo = (from, to) == (PROXY, CLIENT) && parsed.tcp.flags.contains(Flags::ECE);
        if is_echo && self.hides.get() {
            return Fate::Drop;
        }
        self.told.set(self.told.get() + u32::from(is_echo));
        Fate::Pass
    }
}

/// A world whose client has ECN with the proxy; the backend has it too, or not.
fn start(is_ecn_behind: bool) -> (World, Joined, Rc<Path>) {
    let mut world = world_with(|at, node| {
        let asks = at == CLIENT || is_ecn_behind;
        node.stack.tcp.ecn = if asks { EcnMode::Ask } else { EcnMode::Off };
        if at == PROXY && !is_ecn_behind {
            node.stack.tcp.ecn = EcnMode::Accept;
        }
    });
    let joined = world.join();
    let path = Rc::new(Path::default());
    let fates = Rc::clone(&path);
    world.decide(move |from, to, frame| fates.fate(from, to, frame));
    (world, joined, path)
}

/// The client sends a byte that is marked, and is told in vain.
fn send_marked(world: &mut World, joined: &Joined, path: &Path) {
    path.marks.set(true);
    path.hides.set(true);
    world.write(CLIENT, joined.client, b"x");
    world.run_for(SHORTLY);
    path.marks.set(false);
    assert_eq!(path.told.get(), 0);
}

fn take_back(world: &mut World, splice: SpliceHandle) {
    let now = world.now();
    world.stack(PROXY).unsplice(now, splice).expect("it is one");
    assert!(world.run_until(SHORTLY, |world| world.ended(splice).is_some()));
}

#[test]
fn who_was_not_told_before_a_splice_is_told_in_it() {
    for is_ecn_behind in [false, true] {
        let (mut world, joined, path) = start(is_ecn_behind);
        send_marked(&mut world, &joined, &path);
        world.read(PROXY, joined.front, &mut Vec::new());
        let splice = world.splice(&joined).expect("it is made");
        path.hides.set(false);
        // What it sends again is acknowledged by the NIC.
        world.run_for(Duration::from_secs(1));
        assert!(path.told.get() > 0);
        // It has reduced its window, and says so with new data.
        world.write(CLIENT, joined.client, b"more");
        world.run_for(Duration::from_secs(1));
        take_back(&mut world, splice);
        path.told.set(0);
        world.write(CLIENT, joined.client, b"still more");
        world.run_for(Duration::from_secs(1));
        assert_eq!(path.told.get(), 0);
    }
}

#[test]
fn who_was_not_told_in_a_splice_is_told_behind_it() {
    for is_ecn_behind in [false, true] {
        let (mut world, joined, path) = start(is_ecn_behind);
        let splice = world.splice(&joined).expect("it is made");
        send_marked(&mut world, &joined, &path);
        take_back(&mut world, splice);
        path.hides.set(false);
        world.run_for(Duration::from_secs(1));
        assert!(path.told.get() > 0);
    }
}
