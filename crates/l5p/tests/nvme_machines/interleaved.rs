//! Whatever hosts do, and whenever machines look at their mail: a write of a queue that is gone comes before those of the next one, and
//! nothing of what is gone stays.

use l5p::nvme::target::{ConnectionId, Owner};
use proptest::prelude::*;
use wire::nvme::command::{Blocks, Configuration, ConnectData, Fabrics, Io, Property};

use super::rig::*;

#[derive(Clone, Copy, Debug)]
enum Step {
    /// A controller, on this machine.
    Connect(usize),
    /// An I/O queue of some controller, on this machine.
    Queue(usize, u16),
    Write,
    StoreOne,
    /// A host closes a connection.
    Close,
    /// CC.EN is cleared and set.
    Reset,
    Sleep(usize, bool),
}

fn steps() -> impl Strategy<Value = Vec<(Step, usize)>> {
    let step = prop_oneof![
        2 => (0..2usize).prop_map(Step::Connect),
        4 => (0..2usize, 1..4u16).prop_map(|(machine, queue)| Step::Queue(machine, queue)),
        6 => Just(Step::Write),
        3 => Just(Step::StoreOne),
        2 => Just(Step::Close),
        2 => Just(Step::Reset),
        2 => (0..2usize, any::<bool>()).prop_map(|(machine, asleep)| Step::Sleep(machine, asleep)),
    ];
    proptest::collection::vec((step, any::<usize>()), 1..120)
}

struct World {
    rig: Rig,
    /// Admin queues and their controllers' numbers.
    controllers: Vec<(ConnectionId, u16)>,
    /// I/O queues that their host believes in, and whose they are.
    queues: Vec<(ConnectionId, u16)>,
    /// The same of all that there ever were.
    known: Vec<(ConnectionId, u16)>,
}

impl World {
    /// What stores have not done of queues that are gone, of one controller or of all.
    fn left(&self, controller: Option<u16>) -> usize {
        let gone = |id: ConnectionId| !self.queues.iter().any(|(queue, _)| *queue == id);
        let is_of = |id: ConnectionId| {
            let mut known = self.known.iter().rev();
            let of = known.find(|(queue, _)| *queue == id).map(|(_, of)| *of);
            controller.is_none() || of == controller
        };
        let asked = self.rig.asked.iter();
        asked
            .filter(|request| match request.owner {
                Owner::Command(command) => gone(command.connection) && is_of(command.connection),
                Owner::Controller(_) => false,
            })
            .count()
    }

    fn step(&mut self, step: Step, choice: usize) {
        match step {
            Step::Connect(machine) => {
                self.rig.target.pin(machine);
                let id = self.rig.open(0);
                let reply = self.rig.connect_as(id, connect_data(subsystem()), 0, 32, 0);
                match reply.status.is_success() {
                    true => {
                        assert_eq!(self.left(None), 0, "a host is back too early");
                        self.rig.enable(id, true);
                        self.controllers.push((id, reply.dword0() as u16));
                    }
                    false => self.rig.target.handle_closed(id),
                }
            }
            Step::Queue(machine, queue) => {
                let Some(&(_, controller)) = pick(&self.controllers, choice) else {
                    return;
                };
                self.rig.target.pin(machine);
                let id = self.rig.open(0);
                let data = ConnectData {
                    controller,
                    ..connect_data(subsystem())
                };
                let reply = self.rig.connect_as(id, data, queue, 128, 0);
                match reply.status.is_success() {
                    true => {
                        assert_eq!(self.left(Some(controller)), 0, "a queue is back too early");
                        self.queues.push((id, controller));
                        self.known.push((id, controller));
                    }
                    false => self.rig.target.handle_closed(id),
                }
            }
            Step::Write => {
                if let Some(&(id, _)) = pick(&self.queues, choice) {
                    let blocks = Blocks { start: 0, count: 1 };
                    let write = Io::Write { blocks, fua: false };
                    let entry = write.entry(choice as u16, 1).with_data(in_capsule(512));
                    self.rig.command(id, entry, &pattern(BLOCK, 1));
                }
            }
            Step::StoreOne => {
                if !self.rig.asked.is_empty() {
                    let at = choice % self.rig.asked.len();
                    let request = self.rig.asked.remove(at);
                    self.rig.store(request);
                    self.rig.act();
                }
            }
            Step::Close => self.close(choice),
            Step::Reset => {
                if let Some(&(admin, controller)) = pick(&self.controllers, choice) {
                    self.queues.retain(|(_, of)| *of != controller);
                    for enabled in [0, Configuration::ENABLED.0] {
                        let set = Fabrics::PropertySet(Property::CC, enabled.into());
                        self.rig.command(admin, set.entry(1), &[]);
                        while self.rig.receive(admin).is_some() {}
                    }
                }
            }
            Step::Sleep(machine, asleep) => {
                self.rig.target.asleep[machine] = asleep;
                self.rig.act();
            }
        }
    }

    /// A host closes one of its connections.
    fn close(&mut self, choice: usize) {
        let at = choice % (self.controllers.len() + self.queues.len()).max(1);
        if let Some(&(id, _)) = self.queues.get(at) {
            self.queues.remove(at);
            self.rig.target.handle_closed(id);
        } else if let Some(&(id, controller)) = self.controllers.get(at - self.queues.len()) {
            self.controllers.retain(|(admin, _)| *admin != id);
            self.queues.retain(|(_, of)| *of != controller);
            self.rig.target.handle_closed(id);
        }
        self.rig.act();
    }
}

fn pick<T>(all: &[T], choice: usize) -> Option<&T> {
    (!all.is_empty()).then(|| &all[choice % all.len()])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn what_is_gone_is_waited_for_and_then_forgotten(steps in steps()) {
        let mut rig = Rig::new();
        rig.at_once = false;
        let (controllers, queues, known) = (Vec::new(), Vec::new(), Vec::new());
        let mut world = World { rig, controllers, queues, known };
        for (step, choice) in steps {
            world.step(step, choice);
        }
        let mut rig = world.rig;
        rig.target.asleep.fill(false);
        rig.act();
        for (id, _) in world.controllers {
            rig.target.handle_closed(id);
        }
        rig.act();
        while let Some(request) = rig.asked.pop() {
            rig.store(request);
            rig.act();
        }
        rig.target.handle_timeout(rig.now + std::time::Duration::from_secs(60));
        rig.act();
        prop_assert_eq!((rig.target.connections(), rig.target.controllers()), (0, 0));
        prop_assert!(rig.buffers.is_empty());
        // There is room for as many queues as ever.
        let (_, controller) = rig.admin(subsystem(), 0);
        for queue in 1..5 {
            rig.io_queue(controller, queue, 0);
        }
        for _ in 0..3 {
            rig.admin(subsystem(), 0);
        }
    }
}
