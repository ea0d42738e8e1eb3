//! A NIC as far as a library sees it: it takes keys at positions. What it would do to the bytes is done to what the peer has received.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, OnceLock, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::thread;

use attachment::{
    ATTACHED_LINE, Answer, Connection, CryptoInfo, Direction, Errno, OffloadState, Order, Registry,
    Resolved, Resume, SlotRef,
};
use rustix::event::{PollFd, PollFlags, poll};
use wire::SeqNum;

/// What happened to a connection at a position of its stream.
#[derive(Clone, Debug)]
pub struct Mark {
    pub offset: u64,
    /// The NIC's keys from there on; none where it stops.
    pub keys: Option<CryptoInfo>,
}

#[derive(Clone, Debug, Default)]
pub struct Flow {
    pub marks: Vec<Mark>,
    pub resumed: Vec<Resume>,
    pub released: bool,
    pub slot: Option<SlotRef>,
}

#[derive(Debug, Default)]
struct World {
    flows: HashMap<u64, Flow>,
    refused: Vec<u64>,
    deadly: Vec<u64>,
    busy: Vec<u64>,
    mute: Vec<u64>,
    connections: Vec<UnixStream>,
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

fn with<R>(look: impl FnOnce(&mut World) -> R) -> R {
    look(world().get_or_insert_default())
}

/// Starts the NIC, and tells the library of it.
pub fn start() {
    PATH.get_or_init(|| {
        let name = format!("kernel-tls-test.{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        kernel_tls::use_nic(&path, false);
        listen(&path);
        path
    });
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
    with(|world| {
        for connection in world.connections.drain(..) {
            let _ = connection.shutdown(std::net::Shutdown::Both);
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
    let mut registry = Registry::default();
    loop {
        let _ = poll(&mut [PollFd::new(&connection, PollFlags::IN)], None);
        let incoming = match connection.poll_request() {
            Ok(Some(incoming)) => incoming,
            Ok(None) => continue,
            Err(_) => return,
        };
        let answer = match registry.resolve(&mut connection, incoming) {
            Ok(Resolved::Attached(answer)) => answer,
            Ok(Resolved::Order(order)) if dies_of(&order) => return,
            Ok(Resolved::Order(order)) if is_mute(&order) => {
                act(order);
                return;
            }
            Ok(Resolved::Order(order)) => act(order),
            Err(refusal) => refusal.into(),
        };
        let _ = connection.answer(answer);
    }
}

/// Sequence numbers begin shortly before they begin again.
const FIRST: u32 = 0u32.wrapping_sub(100_000);

pub fn tcpsn(offset: u64) -> SeqNum {
    SeqNum(FIRST.wrapping_add(offset as u32))
}

fn act(order: Order) -> Answer {
    match order {
        Order::SetKeys {
            slot,
            direction,
            info,
            resume,
            socket,
        } => {
            let (cookie, offset) = (cookie(&socket), offset(&socket));
            with(|world| {
                if world.refused.contains(&cookie) {
                    return Answer::refused(Errno::NODEV);
                }
                slot.slot()
                    .set_status(direction, slot.generation(), OffloadState::Offloaded);
                if direction == Direction::Receive {
                    // It opens nothing.
                    return Answer::at(tcpsn(0));
                }
                if resume.is_none() && world.busy.contains(&cookie) {
                    return Answer::refused(Errno::BUSY);
                }
                let flow = world.flows.entry(cookie).or_default();
                flow.slot = Some(slot);
                match resume {
                    Some(resume) => {
                        flow.resumed.push(resume);
                        world.busy.retain(|busy| *busy != cookie);
                    }
                    None => flow.marks.push(Mark {
                        offset,
                        keys: Some(info),
                    }),
                }
                Answer::at(tcpsn(offset))
            })
        }
        Order::Stop { socket, .. } => {
            let (cookie, offset) = (cookie(&socket), offset(&socket));
            with(|world| {
                let flow = world.flows.entry(cookie).or_default();
                if flow.marks.last().is_some_and(|mark| mark.keys.is_none()) {
                    return Answer::refused(Errno::NOENT);
                }
                flow.marks.push(Mark { offset, keys: None });
                Answer::at(tcpsn(offset))
            })
        }
        Order::Release { slot } => {
            with(|world| {
                for flow in world.flows.values_mut() {
                    flow.released |= flow.slot.as_ref() == Some(&slot);
                }
            });
            slot.slot().free(slot.generation());
            Answer::at(SeqNum(0))
        }
        // Nothing of records.
        Order::Pdus { .. } | Order::Settle { .. } => Answer::refused(Errno::NODEV),
    }
}

/// Whether the NIC is gone before it answers this, and wants nothing of the socket when it is back.
fn dies_of(order: &Order) -> bool {
    let Order::SetKeys { socket, .. } = order else {
        return false;
    };
    let cookie = cookie(socket);
    with(|world| {
        let place = world.deadly.iter().position(|deadly| *deadly == cookie);
        let Some(place) = place else { return false };
        world.refused.push(world.deadly.swap_remove(place));
        true
    })
}

/// Whether the NIC is gone when it has done this, before it answers.
fn is_mute(order: &Order) -> bool {
    let Order::Stop { socket, .. } = order else {
        return false;
    };
    let cookie = cookie(socket);
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

pub fn cookie(socket: impl AsFd) -> u64 {
    rustix::net::sockopt::socket_cookie(socket).expect("a socket")
}

/// How many bytes were written to a socket (`tcp_info`: sent, without retransmissions, and not sent yet).
fn offset(socket: impl AsFd) -> u64 {
    let info = info(socket);
    let long = |at: usize| u64::from_ne_bytes(info[at..at + 8].try_into().unwrap());
    let short = |at: usize| u32::from_ne_bytes(info[at..at + 4].try_into().unwrap());
    long(200) - long(208) + u64::from(short(144))
}

/// Bytes that the peer has not acknowledged.
pub fn unacknowledged(socket: impl AsFd) -> i32 {
    let mut bytes = 0;
    // SAFETY: the request writes an `int`.
    let asked = unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
    assert_eq!(asked, 0);
    bytes
}

/// Whether TCP is done with the connection (`TCP_CLOSE`).
pub fn is_over(socket: impl AsFd) -> bool {
    info(socket)[0] == 7
}

/// `struct tcp_info`.
fn info(socket: impl AsFd) -> [u8; 256] {
    let mut info = [0_u8; 256];
    let mut len = info.len() as libc::socklen_t;
    // SAFETY: room for the answer, with its length.
    let asked = unsafe {
        use std::os::fd::AsRawFd;
        let fd = socket.as_fd().as_raw_fd();
        libc::getsockopt(
            fd,
            libc::SOL_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &raw mut len,
        )
    };
    assert_eq!(asked, 0);
    info
}
