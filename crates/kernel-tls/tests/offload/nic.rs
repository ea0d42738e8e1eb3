//! A NIC as far as a library sees it: it takes keys at positions. What it would do to the bytes is done to what the peer has received.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, OnceLock, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::thread;

use attachment::{
    ATTACHED_LINE, Answer, Connection, CryptoInfo, Direction, Errno, Incoming, OffloadState,
    Registry, Request, Resolved, Resume, Slab, SlotRef, SlotRequest, SocketFacts, Tenant,
};
use rustix::event::{PollFd, PollFlags, poll};
use wire::SeqNum;

use crate::linux::{Linux, cookie};

/// What happened to a connection at a position of its stream.
#[derive(Clone, Debug)]
pub struct KeyChange {
    pub offset: u64,
    /// The NIC's keys from there on; none where it stops.
    pub keys: Option<CryptoInfo>,
}

#[derive(Clone, Debug, Default)]
pub struct Flow {
    pub key_changes: Vec<KeyChange>,
    pub resumed: Vec<Resume>,
    pub resumed_receiving: usize,
    pub released: bool,
    pub slot: Option<SlotRef>,
    /// Since it was there last.
    is_told: bool,
}

#[derive(Debug, Default)]
struct World {
    flows: HashMap<u64, Flow>,
    refused: Vec<u64>,
    deadly: Vec<u64>,
    busy: Vec<u64>,
    mute: Vec<u64>,
    mortal: Vec<u64>,
    busy_to_stop: HashMap<u64, u32>,
    connections: Vec<UnixStream>,
    /// The library's slab, as the library has it.
    slab: Option<Slab>,
}

static WORLD: Mutex<Option<World>> = Mutex::new(None);
static PATH: OnceLock<PathBuf> = OnceLock::new();
static RUNNING: RwLock<()> = RwLock::new(());

/// For a test that needs the NIC as it is.
pub fn running() -> RwLockReadGuard<'static, ()> {
    RUNNING
        .read()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// For a test that restarts the NIC.
pub fn alone() -> RwLockWriteGuard<'static, ()> {
    RUNNING
        .write()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

fn world() -> MutexGuard<'static, Option<World>> {
    let mut world = WORLD
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner());
    world.get_or_insert_default();
    world
}

/// Each life of the NIC has one.
fn registry() -> MutexGuard<'static, Option<Registry>> {
    static REGISTRY: Mutex<Option<Registry>> = Mutex::new(None);
    REGISTRY
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

fn with<R>(look: impl FnOnce(&mut World) -> R) -> R {
    look(world().get_or_insert_default())
}

/// Variable of the environment: files go without a copy also where a program has not said that they may.
pub const ZEROCOPY: &str = "LONGSHORE_TEST_ZEROCOPY";

/// Starts the NIC, and tells the library of it.
pub fn start() {
    PATH.get_or_init(|| {
        let name = format!("kernel-tls-test.{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        kernel_tls::use_nic(&path, std::env::var_os(ZEROCOPY).is_some());
        listen(&path);
        // SAFETY: a function that stays.
        unsafe { libc::atexit(remove_socket) };
        path
    });
}

extern "C" fn remove_socket() {
    let _ = std::fs::remove_file(PATH.get().expect("started"));
}

fn listen(path: &PathBuf) {
    let _ = std::fs::remove_file(path);
    let listener = UnixListener::bind(path).expect("a socket in the temporary directory");
    thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(stream) = stream else { break };
            let kept = stream.try_clone().expect("a descriptor");
            if with(|world| {
                world.connections.push(kept);
                PATH_GONE.load(std::sync::atomic::Ordering::SeqCst)
            }) {
                break;
            }
            thread::spawn(move || serve(stream));
        }
    });
}

static PATH_GONE: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(false);

/// The NIC's process ends.
pub fn stop() {
    let path = PATH.get().expect("started");
    PATH_GONE.store(true, std::sync::atomic::Ordering::SeqCst);
    // The listener's thread ends with this.
    drop(UnixStream::connect(path));
    let _ = std::fs::remove_file(path);
    *registry() = None;
    with(|world| {
        for connection in world.connections.drain(..) {
            let _ = connection.shutdown(std::net::Shutdown::Both);
        }
        for flow in world.flows.values_mut() {
            flow.is_told = false;
        }
    });
}

/// It is there again.
pub fn restart() {
    PATH_GONE.store(false, std::sync::atomic::Ordering::SeqCst);
    listen(PATH.get().expect("started"));
    // A library that has just found it away does records itself for a moment.
    thread::sleep(std::time::Duration::from_millis(150));
}

fn serve(stream: UnixStream) {
    let mut line = String::new();
    let mut reader = BufReader::with_capacity(1, &stream);
    if reader.read_line(&mut line).is_err() || !line.contains("attach") {
        return;
    }
    let _ = (&stream).write_all(ATTACHED_LINE.as_bytes());
    let mut connection = Connection::new(OwnedFd::from(stream));
    let mut tenant = Tenant::default();
    loop {
        let _ = poll(&mut [PollFd::new(&connection, PollFlags::IN)], None);
        let incoming = match connection.poll_request() {
            Ok(Some(incoming)) => incoming,
            Ok(None) => continue,
            Err(_) => return,
        };
        look_at_slab(&incoming);
        let mut ends = false;
        let answer = incoming.answer(0, &mut Linux, |admitted| {
            let resolved = registry()
                .get_or_insert_default()
                .resolve(&mut tenant, admitted);
            let order = match resolved {
                Ok(Resolved::SlotRequest(order)) => order,
                Ok(Resolved::Attached(answer)) => return answer,
                Err(refusal) => return refusal.into(),
            };
            if dies_of(&order) {
                ends = true;
                return Answer::refused(Errno::NODEV);
            }
            ends = is_mute(&order);
            let dies_for_long = ends && is_mortal(&order);
            let answer = act(order);
            if dies_for_long {
                stop();
            }
            answer
        });
        if ends {
            return;
        }
        let _ = connection.answer(answer);
    }
}

/// Keeps the slab that comes along with a request.
fn look_at_slab(incoming: &Incoming) {
    if let (Request::Attach, Some(file)) = (&incoming.request, &incoming.descriptor) {
        let slab = Slab::open(file.try_clone().expect("a descriptor")).expect("a slab");
        with(|world| world.slab = Some(slab));
    }
}

/// The slot of a socket has another use, as when another process has closed the socket and a NIC that knew nothing of it has freed the slot. Looks at
/// what that use has in it.
pub fn reuse_slot(cookie: u64, look: impl FnOnce(&SlotRef)) {
    let slot = flow(cookie).slot.expect("a slot");
    slot.slot().free(slot.generation());
    with(|world| {
        let slab = world.slab.as_ref().expect("the library has attached");
        let is_its = |index| slab.slot(index).unwrap().lifecycle() == slot.slot().lifecycle();
        let mut others = Vec::new();
        loop {
            let (index, generation) = slab.claim().expect("it is free");
            if index == slot.place().1 {
                break assert!(is_its(index));
            }
            others.push((index, generation));
        }
        for (index, generation) in others {
            slab.slot(index).unwrap().free(generation);
        }
    });
    look(&slot);
}

/// Sequence numbers begin shortly before they begin again.
const FIRST: u32 = 0u32.wrapping_sub(100_000);

pub fn tcpsn(offset: u64) -> SeqNum {
    SeqNum(FIRST.wrapping_add(offset as u32))
}

fn act(order: SlotRequest) -> Answer {
    match order {
        SlotRequest::SetKeys {
            slot,
            direction,
            info,
            resume,
            socket,
        } => {
            let (cookie, offset) = (socket.cookie, socket.acknowledged);
            with(|world| {
                if world.refused.contains(&cookie) {
                    return Answer::refused(Errno::NODEV);
                }
                slot.slot()
                    .set_status(direction, slot.generation(), OffloadState::Offloaded);
                match direction {
                    Direction::Receive => world.opens(cookie, slot, resume.is_some()),
                    Direction::Transmit => world.makes(cookie, slot, offset, info, resume),
                }
            })
        }
        SlotRequest::Stop {
            slot,
            direction,
            socket,
        } => with(|world| world.stops(&slot, direction, &socket)),
        SlotRequest::Release { slot, .. } => {
            with(|world| {
                for flow in world.flows.values_mut() {
                    flow.released |= flow.slot.as_ref() == Some(&slot);
                }
            });
            slot.slot().free(slot.generation());
            Answer::at(SeqNum(0))
        }
        // Nothing of records.
        SlotRequest::Pdus { .. } | SlotRequest::Settle { .. } => Answer::refused(Errno::NODEV),
    }
}

impl World {
    /// Is to open the records of a socket: it opens none.
    fn opens(&mut self, cookie: u64, slot: SlotRef, resumes: bool) -> Answer {
        let flow = self.flows.entry(cookie).or_default();
        flow.slot = Some(slot);
        flow.resumed_receiving += usize::from(resumes);
        Answer::at(tcpsn(0))
    }

    /// Makes the records of a socket from `offset` on.
    fn makes(
        &mut self,
        cookie: u64,
        slot: SlotRef,
        offset: u64,
        info: CryptoInfo,
        resume: Option<Resume>,
    ) -> Answer {
        if resume.is_none() && self.busy.contains(&cookie) {
            return Answer::refused(Errno::BUSY);
        }
        let flow = self.flows.entry(cookie).or_default();
        flow.slot = Some(slot);
        flow.is_told = true;
        match resume {
            Some(resume) => {
                flow.resumed.push(resume);
                self.busy.retain(|busy| *busy != cookie);
            }
            None => flow.key_changes.push(KeyChange {
                offset,
                keys: Some(info),
            }),
        }
        Answer::at(tcpsn(offset))
    }

    /// Makes no more records of a socket.
    fn stops(&mut self, slot: &SlotRef, direction: Direction, socket: &SocketFacts) -> Answer {
        if let Some(left @ 1..) = self.busy_to_stop.get_mut(&socket.cookie) {
            *left -= 1;
            return Answer::refused(Errno::BUSY);
        }
        let flow = self.flows.entry(socket.cookie).or_default();
        // Another one's, of which this one has not been told, or of another slot.
        let is_known = flow.is_told && flow.slot.as_ref() == Some(slot);
        if !flow.key_changes.is_empty() && !is_known {
            return Answer::refused(Errno::STALE);
        }
        let last = flow.key_changes.last();
        if last.is_some_and(|change| change.keys.is_none()) {
            return Answer::refused(Errno::NOENT);
        }
        slot.slot()
            .set_status(direction, slot.generation(), OffloadState::None);
        let offset = socket.acknowledged;
        flow.key_changes.push(KeyChange { offset, keys: None });
        Answer::at(tcpsn(offset))
    }
}

/// Whether the NIC is gone before it answers this, and wants nothing of the socket when it is back.
fn dies_of(order: &SlotRequest) -> bool {
    let SlotRequest::SetKeys { socket, .. } = order else {
        return false;
    };
    let cookie = socket.cookie;
    with(|world| {
        let place = world.deadly.iter().position(|deadly| *deadly == cookie);
        let Some(place) = place else { return false };
        world.refused.push(world.deadly.swap_remove(place));
        true
    })
}

/// Whether the NIC is gone when it has done this, before it answers.
fn is_mute(order: &SlotRequest) -> bool {
    let SlotRequest::Stop { socket, .. } = order else {
        return false;
    };
    let cookie = socket.cookie;
    with(|world| {
        let place = world.mute.iter().position(|mute| *mute == cookie);
        place.map(|place| world.mute.swap_remove(place)).is_some()
    })
}

/// The NIC dies when it has stopped making this socket's records, before it says so.
pub fn die_when_stopped(socket: impl AsFd) {
    let cookie = cookie(socket);
    with(|world| world.mute.push(cookie));
}

fn is_mortal(order: &SlotRequest) -> bool {
    let SlotRequest::Stop { socket, .. } = order else {
        return false;
    };
    let cookie = socket.cookie;
    with(|world| world.mortal.contains(&cookie))
}

/// The same, and it does not come back by itself.
pub fn die_for_long_when_stopped(socket: impl AsFd) {
    let cookie = cookie(&socket);
    with(|world| world.mortal.push(cookie));
    die_when_stopped(socket);
}

/// The NIC is too busy to stop making this socket's records, so often.
pub fn be_busy_to_stop(socket: impl AsFd, times: u32) {
    let cookie = cookie(socket);
    with(|world| world.busy_to_stop.insert(cookie, times));
}

/// The NIC dies when it is given this socket's next keys, and refuses them when it is back.
pub fn die_of(socket: impl AsFd) {
    let cookie = cookie(socket);
    with(|world| world.deadly.push(cookie));
}

/// The NIC takes no more keys for sending by this socket, until it is told older ones again.
pub fn be_busy(socket: impl AsFd) {
    let cookie = cookie(socket);
    with(|world| world.busy.push(cookie));
}

/// It takes more again.
pub fn be_busy_no_more(socket: impl AsFd) {
    let cookie = cookie(socket);
    with(|world| world.busy.retain(|busy| *busy != cookie));
}

/// The NIC wants nothing of this socket.
pub fn refuse(socket: impl AsFd) {
    let cookie = cookie(socket);
    with(|world| world.refused.push(cookie));
}

/// What the NIC knows of a socket.
pub fn flow(cookie: u64) -> Flow {
    with(|world| world.flows.get(&cookie).cloned().unwrap_or_default())
}
