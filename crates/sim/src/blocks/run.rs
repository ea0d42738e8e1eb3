//! One run of a scenario.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

use host::nvme::initiator::{Blocks, Event, Initiator, Io, Status};
use host::{SocketError, SocketId};
use l5p::nvme::initiator::Access;
use port::impair::Impairment;
use wire::SeqNum;
use wire::tcp::Flags;

use super::help::Help;
use super::memory::{Memory, Place};
use super::model::{Expected, Model};
use super::outcome::{Mismatch, Outcome};
use super::scenario::{BLOCK, Command, Scenario};
use super::setup::{storage, world};
use crate::World;
use crate::lending::Lender;
use crate::storage::{NSID, SharedKey, Storage, poll_initiator};

/// Virtual time that a run may take.
const LONGEST: Duration = Duration::from_secs(7200);

/// Drives a scenario through a world.
///
/// # Errors
/// At the first command that does not do what it should.
pub fn run(scenario: &Scenario, help: &Help) -> Result<Outcome, Mismatch> {
    let mut scenario = scenario.clone();
    for _ in 1..OPENINGS {
        match open_and_go(&scenario, help)? {
            Ok(outcome) => return Ok(outcome),
            // The same link with another luck.
            Err(Unopened(_)) if scenario.link != Impairment::default() => {
                scenario.seed = scenario.seed.wrapping_add(1);
            }
            Err(Unopened(mismatch)) => return Err(mismatch),
        }
    }
    open_and_go(&scenario, help)?.map_err(|Unopened(mismatch)| mismatch)
}

/// Times that the connections may fail to open: a link that loses what opens them (SYNs, questions for the neighbour) so often that a
/// host gives up has shown nothing of the commands.
const OPENINGS: usize = 4;

/// The initiator has failed before the first command could be submitted.
struct Unopened(Mismatch);

fn open_and_go(scenario: &Scenario, help: &Help) -> Result<Result<Outcome, Unopened>, Mismatch> {
    let start = match scenario.wrap_within {
        Some((controller, within)) => until_wrap(scenario, controller, within)?,
        None => Duration::ZERO,
    };
    let mut run = Run::new(scenario, help, start)?;
    match run.go() {
        Ok(outcome) => Ok(Ok(outcome)),
        Err(mismatch @ Mismatch::Failed { .. }) if !run.is_ready => Ok(Err(Unopened(mismatch))),
        Err(mismatch) => Err(mismatch),
    }
}

/// How long to wait so that the sequence numbers of one side of the first I/O queue start at most `within` before their wrap. They
/// rise by one every 4 µs (RFC 6528 §3); a world on a calm link that goes as far as the SYN tells from where.
fn until_wrap(scenario: &Scenario, controller: bool, within: u32) -> Result<Duration, Mismatch> {
    let calm = Scenario {
        link: Default::default(),
        ..scenario.clone()
    };
    let mut probe = Run::new(&calm, &Help::NONE, Duration::ZERO)?;
    let syns: Rc<RefCell<Vec<SeqNum>>> = Rc::default();
    let seen = Rc::clone(&syns);
    probe.world.observe(move |node, frame| {
        let parsed = wire::packet::parse(frame).ok();
        let syn = parsed
            .filter(|it| node == usize::from(controller) && it.tcp.flags.contains(Flags::SYN));
        seen.borrow_mut().extend(syn.map(|it| it.tcp.seq));
    });
    // The first one is the admin queue's.
    while syns.borrow().len() < 2 {
        probe.turn()?;
    }
    let wanted = SeqNum(0u32.wrapping_sub(within / 2 + 1));
    let distance = syns.borrow()[1].distance_to(wanted);
    Ok(Duration::from_micros(4 * u64::from(distance)))
}

struct Run<'a> {
    scenario: &'a Scenario,
    help: Help,
    world: World,
    storage: Storage,
    initiator: Initiator,
    memory: Memory,
    model: Model,
    /// The scenario's commands, and the read of everything.
    commands: Vec<Command>,
    next: usize,
    done: usize,
    is_ready: bool,
    /// By the initiator's index.
    flight: Vec<Option<InFlight>>,
    lenders: Vec<Lender>,
    /// When the initiator began.
    began: Instant,
    wrapped: Rc<Cell<u64>>,
}

struct InFlight {
    number: usize,
    place: Place,
    expected: Expected,
}

impl<'a> Run<'a> {
    /// The initiator begins to connect after `start`.
    fn new(scenario: &'a Scenario, help: &Help, start: Duration) -> Result<Self, Mismatch> {
        let mut world = world(scenario, help);
        world.settle_until(start);
        let wrapped = Rc::<Cell<u64>>::default();
        let count = Rc::clone(&wrapped);
        world.observe(move |_, frame| {
            if let Ok(parsed) = wire::packet::parse(frame) {
                let wraps = parsed.tcp.seq.0.checked_add(parsed.payload_len).is_none();
                count.set(count.get() + u64::from(wraps));
            }
        });
        let failed = |why: String| Mismatch::Failed { help: *help, why };
        let keys = scenario.tls.map(SharedKey::new).transpose();
        let keys = keys.map_err(|error| failed(error.to_string()))?;
        let storage = Storage::new(&mut world, storage(scenario, help, keys));
        let initiator = storage.initiator(world.now(), |config, options| {
            config.digests = scenario.digests;
            config.io_queues = scenario.queues;
            config.depth = scenario.depth;
            options.offload = help.initiator;
            options.tls_offload = help.initiator_tls;
            options.map_threshold = scenario.map_threshold;
        });
        let mut commands = scenario.commands.clone();
        commands.extend(whole(scenario.blocks));
        let needed = commands.iter().map(|command| {
            let len = command.blocks().len() * BLOCK as usize;
            Memory::needed(len, u8::MAX)
        });
        let bytes = needed.sum::<usize>();
        let memory = Memory::new(bytes, |region| {
            world.stack(0).register(region, "the commands' memory")
        });
        Ok(Self {
            scenario,
            help: *help,
            storage,
            initiator,
            memory: memory.map_err(|error| failed(error.to_string()))?,
            model: Model::new(
                scenario.blocks,
                scenario.seed,
                scenario.planted.then_some(scenario.digests),
            ),
            began: world.now(),
            wrapped,
            world,
            commands,
            next: 0,
            done: 0,
            is_ready: false,
            flight: Vec::new(),
            lenders: Lender::of(&help.lending, 1),
        })
    }

    fn go(&mut self) -> Result<Outcome, Mismatch> {
        while self.done < self.commands.len() {
            self.turn()?;
        }
        Ok(Outcome {
            nic: [0, 1].map(|node| self.world.nic_counters(node).iter().collect()),
            took: self.world.now() - self.began,
            wrapped: self.wrapped.get(),
        })
    }

    /// Everybody does what there is to do; if that is nothing, time goes by.
    fn turn(&mut self) -> Result<(), Mismatch> {
        let mut moved = poll_initiator(&mut self.world, &mut self.initiator);
        moved |= self.handle_events()?;
        while let Some(completion) = self.initiator.poll_completion() {
            self.complete(completion.id.index(), completion.status)?;
            moved = true;
        }
        while self.submit()? {
            moved = true;
        }
        moved |= self.storage.poll(&mut self.world);
        let now = self.world.now();
        for lender in &mut self.lenders {
            moved |= lender.turn(now, &mut self.world);
        }
        moved |= self.world.step();
        if !moved && (!self.wait() || self.world.now() - self.began > LONGEST) {
            return Err(Mismatch::Stalled {
                help: self.help,
                after: self.world.now() - self.began,
                done: self.done,
                all: self.commands.len(),
            });
        }
        Ok(())
    }

    fn wait(&mut self) -> bool {
        let due: Option<Instant> = [self.initiator.poll_timeout(), self.storage.poll_timeout()]
            .into_iter()
            .flatten()
            .min();
        match due {
            Some(due) => {
                let now = self.world.now();
                self.world
                    .advance_to(due.max(now + Duration::from_micros(1)));
                true
            }
            None => self.world.advance(),
        }
    }

    fn handle_events(&mut self) -> Result<bool, Mismatch> {
        let mut moved = false;
        while let Some(event) = self.initiator.poll_event() {
            moved = true;
            match event {
                Event::Ready => self.is_ready = true,
                Event::Lost(failure) => return Err(self.failed(failure.to_string())),
                Event::Ended(failure) => return Err(self.failed(format!("it ended: {failure:?}"))),
                Event::NamespacesChanged
                | Event::NamespaceReplaced(_)
                | Event::DiscoveryChanged
                | Event::Notice(_) => {}
            }
        }
        Ok(moved)
    }

    /// Submits the next command, if it need not wait for another one.
    fn submit(&mut self) -> Result<bool, Mismatch> {
        let Some(&command) = self.commands.get(self.next).filter(|_| self.is_ready) else {
            return Ok(false);
        };
        let Some(io) = io(&command) else {
            return self.change_keys(command);
        };
        let mut others = self.flight.iter().flatten();
        if others.any(|other| !command.commutes_with(&self.commands[other.number])) {
            return Ok(false);
        }
        let expected = self.model.apply(&command);
        let slices = match command {
            Command::Read { slices, .. } | Command::Write { slices, .. } => slices,
            _ => 1,
        };
        let place = self.memory.place(&expected.data, slices);
        let access = Access { nsid: NSID, io };
        let id = match self.initiator.submit(access, &place.slices) {
            Ok(id) => id,
            Err(error) => return Err(self.failed(format!("{command:?}: {error}"))),
        };
        if self.flight.len() <= id.index() {
            self.flight.resize_with(id.index() + 1, || None);
        }
        self.flight[id.index()] = Some(InFlight {
            number: self.next,
            place,
            expected,
        });
        self.next += 1;
        Ok(true)
    }

    /// Changes the keys that a side sends under, on all its connections.
    fn change_keys(&mut self, command: Command) -> Result<bool, Mismatch> {
        let Command::KeyUpdate {
            controller,
            request_peer,
        } = command
        else {
            return Ok(false);
        };
        let now = self.world.now();
        let stack = self.world.stack(usize::from(controller));
        let secured: Vec<SocketId> = stack
            .sockets()
            .filter(|socket| socket.tls.is_some())
            .filter_map(|socket| socket.id)
            .collect();
        for id in secured {
            match stack.key_update(now, id, request_peer) {
                // For want of memory, this one keeps its key.
                Ok(()) | Err(SocketError::WouldBlock) => {}
                // The NIC runs it, as it does where a session is handed off.
                Err(SocketError::Closed(_) | SocketError::Unsupported(_)) => {}
                Err(error) => return Err(self.failed(format!("{command:?}: {error}"))),
            }
        }
        self.next += 1;
        self.done += 1;
        Ok(true)
    }

    fn complete(&mut self, index: usize, status: Status) -> Result<(), Mismatch> {
        let flight = self.flight.get_mut(index).and_then(Option::take);
        let Some(InFlight {
            number,
            place,
            expected,
        }) = flight
        else {
            return Err(self.failed(format!("a completion for command {index} that is none")));
        };
        self.done += 1;
        let (help, command) = (self.help, self.commands[number]);
        if status != expected.status {
            return Err(Mismatch::Status {
                help,
                number,
                command,
                status,
                expected: expected.status,
            });
        }
        let (data, guarded) = self.memory.read(&place);
        if data != expected.result {
            let same = data.iter().zip(&expected.result);
            let at = same.take_while(|(a, b)| a == b).count();
            return Err(Mismatch::Bytes {
                help,
                number,
                command,
                at,
            });
        }
        if !guarded {
            return Err(Mismatch::Guards {
                help,
                number,
                command,
            });
        }
        Ok(())
    }

    fn failed(&self, why: String) -> Mismatch {
        let why = format!("seed {}: {why}", self.scenario.seed);
        Mismatch::Failed {
            help: self.help,
            why,
        }
    }
}

/// Reads of everything, in commands of a size that the controller takes.
fn whole(blocks: u32) -> impl Iterator<Item = Command> {
    const MOST: u32 = 256;
    (0..blocks)
        .step_by(MOST as usize)
        .map(move |start| Command::Read {
            start,
            count: MOST.min(blocks - start),
            slices: 3,
        })
}

/// None if it is no command.
fn io(command: &Command) -> Option<Io> {
    let range = command.blocks();
    let blocks = Blocks {
        start: u64::from(range.start),
        count: range.len() as u32,
    };
    Some(match *command {
        Command::Read { .. } => Io::Read { blocks, fua: false },
        Command::Write { fua, .. } => Io::Write { blocks, fua },
        Command::Compare { .. } => Io::Compare { blocks, fua: false },
        Command::WriteZeroes { .. } => Io::WriteZeroes {
            blocks,
            fua: false,
            deallocate: false,
        },
        Command::Deallocate { .. } => Io::DatasetManagement {
            ranges: 1,
            deallocate: true,
        },
        Command::Flush => Io::Flush,
        Command::KeyUpdate { .. } => return None,
    })
}
