//! An initiator, a target, and the connections between them.

use std::collections::BTreeMap;
use std::time::Duration;

use l5p::nvme::initiator::{
    Access, Action, Closing, CommandId, Completion, Config, Controller, Event, Failure, Incoming,
    Payload,
};
use l5p::nvme::target::{self, ConnectionId};
use l5p::pdus::Reader;
use wire::SeqNum;
use wire::nvme::command::{Blocks, Io};
use wire::nvme::{Digests, FatalError, Framing, Phase, Role};

use crate::rig::{self, BLOCK, Rig};
use crate::wire_end::{read, to_bytes};

/// A connection.
struct Link {
    id: ConnectionId,
    /// Of the PDUs from the host, and of those to it.
    readers: [Reader<Framing>; 2],
    agreed: bool,
}

pub struct Pair {
    pub host: Controller,
    pub rig: Rig,
    links: BTreeMap<u16, Link>,
    /// The memory of commands, by their place.
    pub memory: BTreeMap<usize, Vec<u8>>,
    /// Decides what goes next.
    choices: Box<dyn FnMut(usize) -> usize>,
    /// Whether machines of a target may sleep.
    pub naps: bool,
    may_nap: bool,
    /// Says whether to damage the data of the next PDU.
    pub damage: Box<dyn FnMut() -> bool>,
    pub events: Vec<Event>,
    /// What one side has told the other of its PDUs.
    pub refused: Vec<FatalError>,
}

pub fn config() -> Config {
    Config {
        io_queues: 2,
        depth: 16,
        digests: Digests::BOTH,
        ..Config::new(rig::subsystem(), rig::host(), [5; 16])
    }
}

impl Pair {
    pub fn new(config: Config) -> Pair {
        Pair::with(config, rig::config())
    }

    pub fn with(config: Config, target: target::Config) -> Pair {
        let rig = Rig::with(target);
        let mut host = Controller::new(config);
        host.start(rig.now);
        Pair {
            host,
            rig,
            links: BTreeMap::new(),
            memory: BTreeMap::new(),
            choices: Box::new(|_| 0),
            naps: false,
            may_nap: false,
            damage: Box::new(|| false),
            events: Vec::new(),
            refused: Vec::new(),
        }
    }

    /// One that is set up.
    pub fn ready(config: Config) -> Pair {
        let mut pair = Pair::new(config);
        pair.run();
        assert_eq!(pair.events, [Event::Ready]);
        pair.events.clear();
        pair
    }

    /// Another host of the same target.
    pub fn restart(&mut self, config: Config) {
        self.host = Controller::new(config);
        self.host.start(self.rig.now);
        self.events.clear();
    }

    /// What goes next is chosen by `choices`, of so many.
    pub fn choose_by(&mut self, choices: impl FnMut(usize) -> usize + 'static) {
        self.choices = Box::new(choices);
    }

    /// Goes on until neither side has anything to do at this time.
    pub fn run(&mut self) {
        while self.step() {}
    }

    /// Does one thing, if there is one to do.
    pub fn step(&mut self) -> bool {
        self.act();
        let queues: Vec<u16> = self.links.keys().copied().collect();
        if queues.is_empty() {
            return false;
        }
        self.nap();
        let count = 2 * queues.len() + 2;
        let first = (self.choices)(count);
        let progress = (0..count).any(|i| match (first + i) % count {
            0 => self.store_one(),
            1 => self.grant_one(),
            n if n % 2 == 0 => self.host_sends(queues[n / 2 - 1]),
            n => self.target_sends(queues[n / 2 - 1]),
        });
        self.may_nap = self.naps && progress;
        progress || self.wake()
    }

    /// A machine of several sleeps or wakes now and then, so that it looks late at what others want of it.
    fn nap(&mut self) {
        let asleep = &mut self.rig.target.asleep;
        if self.may_nap
            && asleep.len() > 1
            && let Some(asleep) = asleep.get_mut((self.choices)(8))
        {
            *asleep = !*asleep;
        }
    }

    /// Wakes all machines. Whether any slept.
    fn wake(&mut self) -> bool {
        let asleep = &mut self.rig.target.asleep;
        let slept = asleep.contains(&true);
        asleep.fill(false);
        slept
    }

    fn act(&mut self) {
        while let Some(action) = self.host.poll_action() {
            self.rig.note(|| format!("host: {action:?}"));
            match action {
                Action::Connect { queue } => {
                    let Some(id) = self.rig.target.accept(self.rig.now, None) else {
                        let reason = "no room".to_string();
                        self.host.handle_lost(self.rig.now, queue, reason);
                        continue;
                    };
                    let reader =
                        |sender| Reader::new(Framing::initializing(sender), SeqNum(0xffff_ff00));
                    let readers = [Role::Host, Role::Controller].map(reader);
                    let agreed = false;
                    self.links.insert(
                        queue,
                        Link {
                            id,
                            readers,
                            agreed,
                        },
                    );
                    self.host.handle_connected(self.rig.now, queue);
                }
                Action::Negotiated { queue, .. } => {
                    let machine = self.host.queue(queue).expect("it is open");
                    let link = self.links.get_mut(&queue).expect("it is open");
                    for (reader, sender) in
                        link.readers.iter_mut().zip([Role::Host, Role::Controller])
                    {
                        reader.negotiated(Framing {
                            max_pdu: 4 << 20,
                            ..machine.framing(sender)
                        });
                    }
                    link.agreed = true;
                }
                Action::Close { queue, how } => {
                    if let Closing::Reported(error) = how {
                        self.refused.push(error);
                    }
                    if let Some(link) = self.links.remove(&queue) {
                        self.rig.target.handle_closed(link.id);
                    }
                }
            }
        }
        while let Some(event) = self.host.poll_event() {
            self.rig.note(|| match &event {
                Event::Lost(failure) => format!("host: lost: {failure}"),
                Event::Ended(Some(failure)) => format!("host: ended: {failure}"),
                event => format!("host: {event:?}"),
            });
            self.events.push(event);
        }
        self.rig.act();
        for (closed, _) in std::mem::take(&mut self.rig.closed) {
            let queue = self.links.iter().find(|(_, link)| link.id == closed);
            if let Some(queue) = queue.map(|(queue, _)| *queue) {
                self.host.handle_lost(self.rig.now, queue, "closed".into());
            }
        }
    }

    fn host_sends(&mut self, queue: u16) -> bool {
        let Some(machine) = self.host.queue(queue) else {
            return false;
        };
        let framing = machine.framing(Role::Host);
        let Some(outgoing) = self.host.poll_pdu(queue) else {
            return false;
        };
        let data = match outgoing.payload {
            Payload::None => Vec::new(),
            Payload::Connect(data) => data.to_bytes().to_vec(),
            Payload::Command { token, offset, len } => {
                self.memory[&token.index()][offset as usize..][..len as usize].to_vec()
            }
        };
        let mut bytes = to_bytes(&outgoing.pdu, &data, &framing);
        if framing.data_digest && !data.is_empty() && queue > 0 && (self.damage)() {
            let at = bytes.len() - 5;
            bytes[at] ^= 1;
        }
        let link = self.links.get_mut(&queue).expect("it is open");
        let received = read(&mut link.readers[0], &bytes).expect("the host keeps to the rules");
        let id = link.id;
        let sent = self
            .rig
            .send_damaged(id, received.pdu, &received.data, received.intact);
        sent.expect("the host keeps to the rules");
        true
    }

    fn target_sends(&mut self, queue: u16) -> bool {
        let Some(link) = self.links.get_mut(&queue) else {
            return false;
        };
        let Some(received) = self.rig.receive(link.id) else {
            return false;
        };
        let framing = match (self.host.queue(queue), link.agreed) {
            (Some(machine), true) => machine.framing(Role::Controller),
            _ => Framing {
                phase: Phase::Initializing,
                ..Framing::initializing(Role::Controller)
            },
        };
        let mut bytes = to_bytes(&received.pdu, &received.data, &framing);
        if framing.data_digest && !received.data.is_empty() && queue > 0 && (self.damage)() {
            let at = bytes.len() - 5;
            bytes[at] ^= 1;
        }
        let received = read(&mut link.readers[1], &bytes).expect("the target keeps to the rules");
        let (now, pdu) = (self.rig.now, received.pdu);
        let incoming = self.host.handle_header(now, queue, &pdu);
        self.rig.note(|| format!("host: {incoming:?}"));
        let inline = match incoming.expect("the target keeps to the rules") {
            Incoming::Nothing | Incoming::Discard => &[],
            Incoming::Inline => &received.data[..],
            Incoming::Data { token, offset, .. } => {
                let memory = self
                    .memory
                    .get_mut(&token.index())
                    .expect("it is in flight");
                memory[offset as usize..][..received.data.len()].copy_from_slice(&received.data);
                &[]
            }
        };
        self.host.handle_end(now, queue, received.intact, inline);
        true
    }

    fn store_one(&mut self) -> bool {
        if self.rig.asked.is_empty() {
            return false;
        }
        let at = (self.choices)(self.rig.asked.len());
        let request = self.rig.asked.swap_remove(at);
        self.rig.store(request);
        true
    }

    fn grant_one(&mut self) -> bool {
        if self.rig.waiting.is_empty() {
            return false;
        }
        let (command, len) = self.rig.waiting.remove(0);
        self.rig.give(command, len);
        true
    }

    /// Submits a command with its memory: what is written, or room for what is read.
    pub fn submit(&mut self, nsid: u32, io: Io, memory: Vec<u8>) -> CommandId {
        let id = self.host.submit(Access { nsid, io }).expect("it is taken");
        self.memory.insert(id.index(), memory);
        id
    }

    pub fn completions(&mut self) -> Vec<Completion> {
        let mut completions = Vec::new();
        while let Some(id) = self.host.poll_ended() {
            let completion = self.host.release(id, true);
            self.rig.note(|| match completion {
                Some(Completion { status, .. }) => format!("host: {} ends: {status}", id.index()),
                None => format!("host: {} again", id.index()),
            });
            completions.extend(completion);
        }
        completions
    }

    /// Runs until a command is complete; gives its status and its memory.
    pub fn complete(&mut self, nsid: u32, io: Io, memory: Vec<u8>) -> (Completion, Vec<u8>) {
        let id = self.submit(nsid, io, memory);
        let done = loop {
            self.run();
            if let [done] = self.completions()[..] {
                break done;
            }
        };
        assert_eq!(done.id, id);
        (done, self.memory.remove(&id.index()).expect("it was given"))
    }

    /// Lets time pass, timer by timer.
    pub fn pass(&mut self, time: Duration) {
        let until = self.rig.now + time;
        loop {
            let timers = [self.host.poll_timeout(), self.rig.target.poll_timeout()];
            let next = timers.into_iter().flatten().min();
            let Some(at) = next.filter(|at| *at <= until) else {
                break;
            };
            self.rig.now = self.rig.now.max(at);
            self.host.handle_timeout(self.rig.now);
            self.rig.target.handle_timeout(self.rig.now);
            self.run();
        }
        self.rig.now = until;
    }

    /// A queue's connection breaks.
    pub fn cut(&mut self, queue: u16) {
        if let Some(link) = self.links.remove(&queue) {
            self.rig.target.handle_closed(link.id);
            self.host.handle_lost(self.rig.now, queue, "cut".into());
            self.act();
        }
    }

    pub fn failure(&self) -> &Failure {
        let mut failures = self.events.iter().rev().filter_map(|event| match event {
            Event::Lost(failure) | Event::Ended(Some(failure)) => Some(failure),
            _ => None,
        });
        failures.next().expect("something failed")
    }
}

pub fn blocks(start: u64, len: usize) -> Blocks {
    Blocks {
        start,
        count: (len / BLOCK) as u32,
    }
}

pub fn read_io(start: u64, len: usize) -> Io {
    Io::Read {
        blocks: blocks(start, len),
        fua: false,
    }
}

pub fn write_io(start: u64, len: usize) -> Io {
    Io::Write {
        blocks: blocks(start, len),
        fua: false,
    }
}
