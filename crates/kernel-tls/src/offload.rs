//! This process's connection to the NIC that may do sockets' records.

mod slots;

use std::collections::BTreeMap;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use attachment::{Client, ClientError, CryptoInfo, Direction, Keys, Resume, Slot};
use rustix::io::Errno;
use wire::SeqNum;

use crate::complaint;
use crate::counters::Counter;
use crate::flusher;
use crate::fork_lock::{ForkGuard, ForkLock};
use crate::internal::{self, Internal};
use crate::session::{NotResumed, Session};

pub(crate) use slots::{SlotName, claim, renew, slab, slot, unclaim};

/// How long the NIC has for an answer.
const TIMEOUT: Duration = Duration::from_secs(2);
/// How long no other attempt is made after one that failed.
const PAUSE: Duration = Duration::from_millis(100);

#[derive(Debug)]
struct Nic {
    control: PathBuf,
    zerocopy: bool,
}

static NIC: OnceLock<Nic> = OnceLock::new();

/// From now on sockets that are given keys ask the NIC behind this control socket to do their records, and do them themselves when it
/// refuses. `zerocopy` has files sent from their pages without a copy also where the program has not said, by `TLS_TX_ZEROCOPY_RO`, that
/// they do not change meanwhile.
///
/// To be called once, before there are sessions; later calls change nothing. That it does not do records is said on standard error, as long as that is the same
/// file as at this call.
pub fn use_nic(control: &Path, zerocopy: bool) {
    complaint::begin();
    let _ = NIC.set(Nic {
        control: control.to_owned(),
        zerocopy,
    });
}

/// Files may be sent from their pages without a copy by whatever socket.
pub(crate) fn zerocopy() -> bool {
    NIC.get().is_some_and(|nic| nic.zerocopy)
}

/// A NIC was asked for, and does not do a direction's records: says so, and counts it; refusals by `counter`.
pub(crate) fn complain(failure: Failure, counter: Counter) {
    let Some(nic) = NIC.get() else { return };
    match failure {
        Failure::Refused(error) => complaint::refused(&nic.control, error, counter),
        Failure::NotThere | Failure::Lost => {
            let error = lock().error.unwrap_or(ClientError::Gone(Errno::NOTCONN));
            complaint::unreachable(&nic.control, error);
        }
    }
}

/// Why the NIC does not do a socket's records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// No NIC is configured; it was not asked.
    NotThere,
    /// It does not want to.
    Refused(Errno),
    /// It went before it had answered.
    Lost,
}

/// The connection to the NIC.
#[derive(Debug)]
struct Attached {
    client: Client,
    /// The slab's number on it.
    slab: u16,
    /// Which NIC it is; never 0.
    nic: u32,
    /// Another descriptor of it, to be waited on.
    watch: Arc<Internal>,
}

#[derive(Debug)]
struct State {
    process: u32,
    attached: Option<Attached>,
    /// Connections that there have been.
    connections: u32,
    /// When it was tried last to no avail, and why.
    failed: Option<Instant>,
    error: Option<ClientError>,
    /// A connection has ended, and what was told on it has not been told again.
    lost: bool,
    /// Sessions whose keys this process has told.
    told: BTreeMap<usize, Weak<Session>>,
    /// Those of them that a call had when the NIC was to be told their keys again.
    busy: Vec<Weak<Session>>,
    /// Slots whose sockets were closed, with the sockets' cookies.
    released: Vec<(SlotName, u64)>,
}

const NOTHING: State = State {
    process: 0,
    attached: None,
    connections: 0,
    failed: None,
    error: None,
    lost: false,
    told: BTreeMap::new(),
    busy: Vec::new(),
    released: Vec::new(),
};

static STATE: ForkLock<State> = ForkLock::new(NOTHING);

fn lock() -> ForkGuard<'static, State> {
    let me = crate::process::id();
    let mut state = STATE.lock();
    if state.process != me {
        // The connection is the parent's, and the rest may be from the middle of a change: it is not looked at, but for the descriptors.
        let parents = std::mem::replace(
            &mut *state,
            State {
                process: me,
                ..NOTHING
            },
        );
        if let Some(attached) = &parents.attached {
            for fd in [attached.client.as_fd(), attached.watch.as_fd()] {
                internal::unmark(fd);
                // SAFETY: our copies of the parent's descriptors, which are used only here; their owner is forgotten below.
                unsafe { rustix::io::close(fd.as_raw_fd()) };
            }
        }
        std::mem::forget(parents);
    }
    state
}

impl State {
    fn attach(&mut self) -> Result<&mut Attached, Failure> {
        if self.attached.is_none() {
            let just_failed = self.failed.is_some_and(|at| at.elapsed() < PAUSE);
            let attached = match just_failed {
                true => None,
                false => connect().map_err(|error| self.error = Some(error)).ok(),
            };
            if attached.is_none() && !just_failed {
                self.failed = Some(Instant::now());
            }
            self.connections += u32::from(attached.is_some());
            self.attached = attached;
            if self.attached.is_some() {
                // The thread watches it. Without one it must not be woken: it is who asks, too.
                flusher::wake();
            }
        }
        self.attached.as_mut().ok_or(Failure::NotThere)
    }

    fn ask<R>(
        &mut self,
        ask: impl FnOnce(&mut Client, u16) -> Result<R, ClientError>,
    ) -> Result<R, Failure> {
        let attached = self.attach()?;
        match ask(&mut attached.client, attached.slab) {
            Ok(answer) => Ok(answer),
            Err(ClientError::Refused(error)) => Err(Failure::Refused(error)),
            Err(ClientError::Gone(_) | ClientError::Untrusted(_)) => {
                self.detach();
                Err(Failure::Lost)
            }
        }
    }

    fn detach(&mut self) {
        if let Some(attached) = self.attached.take() {
            internal::unmark(attached.client.as_fd());
            self.lost = true;
        }
        self.failed = None;
    }
}

fn connect() -> Result<Attached, ClientError> {
    let none = ClientError::Gone(Errno::NOMEM);
    let (slab, nic) = slab().zip(NIC.get()).ok_or(none)?;
    let mut client = Client::connect(&nic.control, TIMEOUT)?;
    let shared = client.attach(slab)?;
    let watch = rustix::io::fcntl_dupfd_cloexec(&client, 0).map_err(ClientError::Gone)?;
    internal::mark(client.as_fd());
    Ok(Attached {
        client,
        slab: shared.number,
        nic: shared.nic.max(1),
        watch: Arc::new(Internal::new(watch)),
    })
}

/// This process's connection to the NIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NicConnection {
    /// Its number among those that the process had.
    pub(crate) number: u32,
    /// Which NIC it is to; never 0.
    pub(crate) nic: u32,
}

/// This process's connection to the NIC: another one may be to another NIC.
pub(crate) fn connection() -> Result<NicConnection, Failure> {
    let mut state = lock();
    let nic = state.attach()?.nic;
    let number = state.connections;
    Ok(NicConnection { number, nic })
}

/// Where a NIC does a direction's records from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyedFrom {
    pub(crate) tcpsn: SeqNum,
    /// The connection on which it was told the keys.
    pub(crate) connection: NicConnection,
}

/// Has `tell` tell the NIC keys, with the slot that `place` names: once more with another one when that has had another use since.
pub(crate) fn tell<R>(
    place: &AtomicU64,
    mut tell: impl FnMut(Slot<'static>, SlotName) -> Result<R, Failure>,
) -> Result<R, Failure> {
    let mut tell_present = || {
        let (slot, name) = slot(place).ok_or(Failure::NotThere)?;
        tell(slot, name)
    };
    match tell_present() {
        Err(Failure::Refused(Errno::STALE)) if renew(place).is_some() => tell_present(),
        told => told,
    }
}

/// Has the NIC do a direction's records. Asks only `on` this connection, if that is given.
pub(crate) fn set_keys(
    name: SlotName,
    direction: Direction,
    info: &CryptoInfo,
    resume: Option<Resume>,
    fd: BorrowedFd<'_>,
    on: Option<NicConnection>,
) -> Result<KeyedFrom, Failure> {
    let mut state = lock();
    if on.is_some_and(|on| state.attached.is_none() || on.number != state.connections) {
        return Err(Failure::NotThere);
    }
    let connection = NicConnection {
        nic: state.attach()?.nic,
        number: state.connections,
    };
    let number = next_request(name, direction)?;
    let told = state.ask(|client, slab| {
        let keys = Keys {
            slot: name.on(slab),
            direction,
            number,
            info: info.clone(),
            resume,
        };
        client.set_keys(keys, fd)
    });
    revoked_if_lost(told, name, direction).map(|tcpsn| KeyedFrom { tcpsn, connection })
}

/// The number of a direction's next request.
fn next_request(name: SlotName, direction: Direction) -> Result<u32, Failure> {
    let slot = slab().and_then(|slab| slab.slot(name.index));
    let slot = slot.ok_or(Failure::NotThere)?;
    Ok(slot.next_request(direction))
}

/// A request without an answer is not done any more, unless it was done already: the session may go on without the NIC.
fn revoked_if_lost<R>(
    asked: Result<R, Failure>,
    name: SlotName,
    direction: Direction,
) -> Result<R, Failure> {
    if matches!(asked, Err(Failure::Lost)) {
        next_request(name, direction)?;
    }
    asked
}

/// Has the NIC do a direction's records no more; gives the position from which that holds.
pub(crate) fn stop(
    name: SlotName,
    direction: Direction,
    fd: BorrowedFd<'_>,
) -> Result<SeqNum, Failure> {
    let mut state = lock();
    let number = next_request(name, direction)?;
    let stopped = state.ask(|client, slab| client.stop(name.on(slab), number, direction, fd));
    revoked_if_lost(stopped, name, direction)
}

/// This process tells the session's keys again when the NIC has been restarted. They were told on this connection; without one they are looked at at once.
pub(crate) fn keep(session: &Arc<Session>, connection: Option<NicConnection>) {
    let at = Arc::as_ptr(session) as usize;
    let mut state = lock();
    state.told.insert(at, Arc::downgrade(session));
    // The NIC may have been restarted, and have been told all others, just before.
    if connection.is_none_or(|connection| connection.number != state.connections) {
        state.lost = true;
        drop(state);
        flusher::wake();
    }
}

/// The session is no more.
pub(crate) fn forget(session: &Session) {
    lock().told.remove(&(std::ptr::from_ref(session) as usize));
}

/// The socket of a slot, which has this cookie, was closed. The NIC is told by and by.
pub(crate) fn release(name: SlotName, cookie: u64) {
    lock().released.push((name, cookie));
    flusher::wake();
}

/// What the library's thread waits on to hear that the NIC has gone.
pub(crate) fn watched() -> Option<Arc<Internal>> {
    NIC.get()?;
    lock()
        .attached
        .as_ref()
        .map(|attached| Arc::clone(&attached.watch))
}

/// The library's thread: tells the NIC what was closed.
pub(crate) fn tell_released() {
    if NIC.get().is_none() {
        return;
    }
    loop {
        let mut state = lock();
        // A NIC that comes later frees the slots that it knows nothing of.
        if state.attached.is_none() {
            return;
        }
        let Some((name, cookie)) = state.released.pop() else {
            return;
        };
        let told = state.ask(|client, slab| client.release(name.on(slab), cookie));
        if !matches!(told, Ok(()) | Err(Failure::Refused(_))) {
            state.released.push((name, cookie));
        }
    }
}

/// The library's thread: the NIC has gone. Once it is there again it is told the keys of all that it has done records for. False if it is not
/// there yet, or a call has one of the sessions: that one is to be tried again.
pub(crate) fn reattach() -> bool {
    let sessions: Vec<Arc<Session>> = {
        let mut state = lock();
        if has_ended(&state) {
            state.detach();
        }
        if !state.lost && state.busy.is_empty() {
            return true;
        }
        if state.attach().is_err() {
            return state.told.is_empty();
        }
        let busy = std::mem::take(&mut state.busy);
        match std::mem::take(&mut state.lost) {
            true => state.told.values().filter_map(Weak::upgrade).collect(),
            false => busy.iter().filter_map(Weak::upgrade).collect(),
        }
    };
    let (mut busy, mut is_gone) = (Vec::new(), false);
    for session in &sessions {
        match session.resume() {
            Ok(()) => {}
            Err(NotResumed::Busy) => busy.push(Arc::downgrade(session)),
            Err(NotResumed::Gone) => {
                is_gone = true;
                break;
            }
        }
    }
    let is_done = busy.is_empty() && !is_gone;
    let mut state = lock();
    state.lost |= is_gone;
    state.busy.append(&mut busy);
    is_done
}

/// What was told on a connection that has ended has not been told again: its user has found out before the library's thread.
pub(crate) fn is_lost() -> bool {
    NIC.get().is_some() && lock().lost
}

fn has_ended(state: &State) -> bool {
    state.attached.as_ref().is_some_and(|attached| {
        let mut byte = [0_u8];
        let flags = rustix::net::RecvFlags::PEEK | rustix::net::RecvFlags::DONTWAIT;
        let looked = rustix::net::recv(&*attached.watch, &mut byte, flags);
        !matches!(looked, Err(Errno::AGAIN) | Ok((_, 1..)))
    })
}
