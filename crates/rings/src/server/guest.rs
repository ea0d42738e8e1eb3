//! What the thread of a virtual machine's line does.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, Instant};

use nic::Features;
use nic::ring::{Block, DeviceFunction, FunctionConfig, Region, Regions};
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};

use super::host::{Terms, hear, hosts_bell};
use super::mailbox::{Closed, Message, Offer, Reply};
use crate::connection::{Connection, Ended, Framed};
use crate::guest::{GuestRequest, Memory};
use crate::memory;
use crate::message::{Answer, BadRequest, Identity, Refusal, Request};
use crate::threads::Place;

/// Parts that a machine's memory may have: each is a guarded mapping, of which a process has [`MAX_GUARDED`](crate::fault::MAX_GUARDED).
const MOST_PARTS: usize = 64;
/// How long the data thread may take to let go of memory.
const PATIENCE: Duration = Duration::from_secs(2);
/// How often it is asked.
const PAUSE: Duration = Duration::from_micros(100);

/// Serves a line to its end.
pub(super) fn run(place: &Place, terms: &Terms) {
    place.keep();
    let mut connection = Connection::new(place.socket());
    let mut guest = Guest {
        function: None,
        terms,
        parts: BTreeMap::new(),
        rings: Vec::new(),
        features: Features::NONE,
        identity: None,
    };
    if let Err(why) = guest.serve(&mut connection) {
        tracing::debug!("the guest at {} is gone: {why}", terms.path.display());
    }
}

/// A virtual machine.
struct Guest<'a> {
    /// Dropped first: the memory is in use.
    function: Option<Function<'a>>,
    terms: &'a Terms,
    /// Its memory, by address.
    parts: BTreeMap<u64, Arc<Region>>,
    /// Where the rings of each queue are to be.
    rings: Vec<u64>,
    features: Features,
    identity: Option<Identity>,
}

/// Its function. When it goes, the data thread lets go of it first; the fields are the last references then.
struct Function<'a> {
    is_attached: bool,
    terms: &'a Terms,
    registry: Arc<Regions>,
    /// Addresses of the parts of memory in which it has rings.
    parts: BTreeSet<u64>,
    _blocks: Vec<Arc<Block>>,
    /// The NIC's bell, an eventfd, which is read here.
    bell: OwnedFd,
    /// Our ends of the queues' bells, which the data thread rings.
    _theirs: Vec<Arc<OwnedFd>>,
    replies: Receiver<Reply>,
}

impl<'a> Guest<'a> {
    fn serve(&mut self, connection: &mut Connection<'_>) -> Result<(), Ended> {
        loop {
            let bell = self.function.as_ref().map(|function| &function.bell);
            let mut fds = vec![PollFd::new(connection, PollFlags::IN)];
            fds.extend(bell.map(|bell| PollFd::new(bell, PollFlags::IN)));
            let _ = poll(&mut fds, None);
            let is_ready = |fd: Option<&PollFd<'_>>| fd.is_some_and(|fd| !fd.revents().is_empty());
            let (has_asked, has_rung) = (is_ready(fds.first()), is_ready(fds.get(1)));
            drop(fds);
            if let Some(function) = self.function.as_ref().filter(|_| has_rung) {
                hear(&function.bell, &self.terms.data_thread)?;
            }
            if has_asked && let Some(framed) = connection.poll()? {
                self.answer(connection, framed)?;
            }
        }
    }

    fn answer(&mut self, connection: &Connection<'_>, framed: Framed) -> Result<(), Ended> {
        let Framed { bytes, descriptor } = framed;
        let request = GuestRequest::from_bytes(&bytes).map_err(|bad| match bad {
            BadRequest::Version => Refusal::Version(crate::VERSION),
            BadRequest::Meaningless => Refusal::Meaningless,
        });
        let done = |result: Result<(), Refusal>| match result {
            Ok(()) => Answer::Agreed,
            Err(refusal) => Answer::Refused(refusal),
        };
        let answer = match request {
            Ok(GuestRequest::Plain(Request::Identify(at))) => self.identity()?.answer(at),
            Ok(GuestRequest::Plain(Request::Features(features))) => done(self.agree(features)?),
            Ok(GuestRequest::Plain(Request::SetUp(config))) => {
                return self.set_up(connection, config);
            }
            Ok(GuestRequest::Address) => Answer::SetUp {
                mac: self.terms.mac,
                mtu: u16::try_from(self.identity()?.mtu).unwrap_or(u16::MAX),
            },
            Ok(GuestRequest::Map(memory)) => done(self.map(memory, descriptor)),
            Ok(GuestRequest::Unmap { address, len }) => {
                self.unmap(address, len);
                Answer::Agreed
            }
            Ok(GuestRequest::Rings { queue, address }) => done(self.place_rings(queue, address)),
            Ok(GuestRequest::Remove) => {
                self.function = None;
                Answer::Agreed
            }
            Ok(GuestRequest::Plain(_)) => Answer::Refused(Refusal::Meaningless),
            Err(refusal) => Answer::Refused(refusal),
        };
        connection.answer(answer, &[])
    }

    fn identity(&mut self) -> Result<Identity, Ended> {
        match self.identity {
            Some(identity) => Ok(identity),
            None => Ok(*self.identity.insert(self.terms.identity()?)),
        }
    }

    fn agree(&mut self, features: Features) -> Result<Result<(), Refusal>, Ended> {
        let offered = Features::from_bits(self.identity()?.features);
        let missing = features.without(offered);
        if !missing.is_empty() {
            return Ok(Err(Refusal::Features(missing)));
        }
        self.features = features;
        Ok(Ok(()))
    }

    fn place_rings(&mut self, queue: u16, address: u64) -> Result<(), Refusal> {
        if queue >= self.terms.limits.config.queues {
            return Err(Refusal::BadConfig);
        }
        let queue = usize::from(queue);
        if self.rings.len() <= queue {
            self.rings.resize(queue + 1, 0);
        }
        self.rings[queue] = address;
        Ok(())
    }

    fn set_up(&mut self, connection: &Connection<'_>, config: FunctionConfig) -> Result<(), Ended> {
        match self.begin(config) {
            Ok((answer, bells)) => {
                let function = self.function.as_ref().ok_or(Ended::Over)?;
                let bells = bells.iter().map(AsFd::as_fd);
                let all: Vec<_> = [function.bell.as_fd()].into_iter().chain(bells).collect();
                connection.answer(answer, &all)
            }
            Err(refusal) => connection.answer(Answer::Refused(refusal), &[]),
        }
    }

    /// Offers the data thread a function. Gives the answer, and the machine's ends of its bells.
    fn begin(&mut self, config: FunctionConfig) -> Result<(Answer, Vec<OwnedFd>), Refusal> {
        let (mac, features) = (self.terms.mac, self.features);
        let config = FunctionConfig {
            mac,
            features,
            ..config
        };
        if self.function.is_some() {
            return Err(Refusal::Busy);
        }
        if config.check().is_err() || !self.terms.limits.allow(&config) {
            return Err(Refusal::BadConfig);
        }
        let (parts, blocks) = self.blocks(&config)?;
        let registry = Arc::new(Regions::default());
        for (address, region) in &self.parts {
            registry.map(*address, Arc::clone(region));
        }
        let device = DeviceFunction::over_each(&blocks, config, Arc::clone(&registry));
        let device = device.map_err(|_| Refusal::NotEmpty)?;
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for _ in 0..config.queues {
            let (our, their) = hosts_bell().map_err(|_| Refusal::NoRoom)?;
            ours.push(Arc::new(our));
            theirs.push(their);
        }
        let flags = EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC;
        let bell = eventfd(0, flags).map_err(|_| Refusal::NoRoom)?;
        let (sender, replies) = sync_channel(1);
        let mut function = Function {
            is_attached: false,
            terms: self.terms,
            registry,
            parts,
            _blocks: blocks,
            bell,
            _theirs: ours.clone(),
            replies,
        };
        let offer = Offer {
            device,
            bells: ours,
            replies: sender,
        };
        // Here it waits, on the machine's own thread.
        std::thread::sleep(self.terms.pace.take(Instant::now()));
        match function.ask(Message::Attach(Box::new(offer))) {
            Ok(Reply::Attached { mtu }) => {
                function.is_attached = true;
                self.function = Some(function);
                Ok((Answer::SetUp { mac, mtu }, theirs))
            }
            Ok(Reply::Refused(refusal)) => Err(refusal),
            _ => Err(Refusal::Draining),
        }
    }

    /// The rings of all queues, with the parts of memory that they are in.
    fn blocks(&self, config: &FunctionConfig) -> Result<(BTreeSet<u64>, Vec<Arc<Block>>), Refusal> {
        let one = FunctionConfig {
            queues: 1,
            ..*config
        };
        let (mut parts, mut blocks) = (BTreeSet::new(), Vec::new());
        for queue in 0..usize::from(config.queues) {
            let address = *self.rings.get(queue).ok_or(Refusal::BadMemory)?;
            let part = self.parts.range(..=address).next_back();
            let (start, region) = part.ok_or(Refusal::BadMemory)?;
            let block = memory::block_in(region, address - start, one.block_bytes());
            blocks.push(Arc::new(block.ok_or(Refusal::BadMemory)?));
            parts.insert(*start);
        }
        Ok((parts, blocks))
    }

    fn map(&mut self, memory: Memory, file: Option<OwnedFd>) -> Result<(), Refusal> {
        let len = usize::try_from(memory.len).ok().filter(|len| *len > 0);
        let (len, end) = match (len, memory.address.checked_add(memory.len)) {
            (Some(len), Some(end)) => (len, end),
            _ => return Err(Refusal::BadMemory),
        };
        let before = self.parts.range(..end).next_back();
        if before.is_some_and(|(start, region)| start + region.len() as u64 > memory.address) {
            return Err(Refusal::BadMemory);
        }
        self.check_room(&memory)?;
        let file = file.ok_or(Refusal::BadFile)?;
        if !memory::is_guest_memory(file.as_fd()) {
            return Err(Refusal::BadFile);
        }
        let (offset, writable, share) = (memory.offset, memory.writable, &self.terms.files);
        let region = memory::map_guest(file.as_fd(), offset, len, writable, share);
        let region = region.map_err(|_| Refusal::BadFile)?;
        if let Some(function) = &self.function {
            function.registry.map(memory.address, Arc::clone(&region));
        }
        self.parts.insert(memory.address, region);
        Ok(())
    }

    fn check_room(&self, memory: &Memory) -> Result<(), Refusal> {
        let limits = &self.terms.limits;
        let sum = |which: fn(&Region) -> bool| {
            let counted = self.parts.values().filter(|region| which(region));
            counted.fold(memory.len, |sum, it| sum.saturating_add(it.len() as u64))
        };
        let writable = if memory.writable {
            sum(Region::writable)
        } else {
            0
        };
        let fits = self.parts.len() < MOST_PARTS
            && !self.terms.files.is_full()
            && writable <= limits.writable
            && sum(|_| true) <= limits.mapped;
        fits.then_some(()).ok_or(Refusal::TooMany)
    }

    /// Takes memory away, and waits until the device has let go of it. A function that has rings there goes.
    fn unmap(&mut self, address: u64, len: u64) {
        let end = address.saturating_add(len);
        let overlaps =
            |start: u64, region: &Region| start < end && start + region.len() as u64 > address;
        let parts = std::mem::take(&mut self.parts);
        let (gone, left): (BTreeMap<_, _>, _) = parts
            .into_iter()
            .partition(|(start, region)| overlaps(*start, region));
        self.parts = left;
        let has_rings =
            |function: &Function<'_>| gone.keys().any(|start| function.parts.contains(start));
        if self.function.as_ref().is_some_and(has_rings) {
            self.function = None;
        }
        let Some(function) = &self.function else {
            return;
        };
        gone.keys()
            .for_each(|start| function.registry.unmap(*start));
        let since = Instant::now();
        let is_held = |region: &Arc<Region>| Arc::strong_count(region) > 1;
        while gone.values().any(is_held) && since.elapsed() < PATIENCE {
            self.terms.data_thread.wake();
            std::thread::sleep(PAUSE);
        }
        if gone.values().any(is_held) {
            // The function goes instead: the data thread has nothing of it afterwards.
            self.function = None;
        }
    }
}

impl Function<'_> {
    fn ask(&self, message: Message) -> Result<Reply, Closed> {
        self.terms.data_thread.send(message)?;
        self.replies.recv().map_err(|_| Closed)
    }
}

impl Drop for Function<'_> {
    fn drop(&mut self) {
        if self.is_attached {
            let _ = self.ask(Message::Detach);
        }
    }
}
