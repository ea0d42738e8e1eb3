//! What two TAP interfaces cost by themselves: a thread that moves frames from the one to the other and does nothing else.

use std::os::unix::thread::JoinHandleExt as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Context as _;
use port::Port as _;
use port::tap::{Tap, TapConfig};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::bench::daemon;
use crate::bench::web::namespace::Namespace;

/// Frames of one interface before it is the other's turn.
const BATCH: usize = 16;
/// How often it looks whether it is to end.
const LOOK: Duration = Duration::from_millis(100);
/// More than any frame.
const ROOM: usize = 70_000;

/// The thread. It ends, and its interfaces go away, when this is dropped.
pub struct Forwarder {
    thread: Option<JoinHandle<anyhow::Result<()>>>,
    ends: Arc<AtomicBool>,
}

impl Forwarder {
    /// Makes two interfaces of these names in the namespace, and starts to forward between them.
    ///
    /// # Errors
    /// When they can't be made.
    pub fn start(namespace: &Namespace, names: [&'static str; 2]) -> anyhow::Result<Self> {
        let open = |name| Tap::open(name, TapConfig::default());
        let [one, other] = names;
        let taps = namespace.run(move || Ok([open(one)?, open(other)?]))?;
        let ends = Arc::new(AtomicBool::new(false));
        let its = Arc::clone(&ends);
        let thread = std::thread::Builder::new().name("forwarder".into());
        let thread = thread.spawn(move || forward(taps, &its));
        Ok(Self {
            thread: Some(thread.context("the system gives no thread")?),
            ends,
        })
    }

    /// The processor time that it has had.
    ///
    /// # Errors
    /// When it has ended: an interface is gone.
    pub fn processor_time(&self) -> anyhow::Result<Duration> {
        let running = self.thread.as_ref().filter(|thread| !thread.is_finished());
        let thread = running.context("the forwarder has ended: its interfaces are gone")?;
        let mut clock = 0;
        // SAFETY: the thread has not been joined, and the function writes a clock's number to the place that it is given.
        let found = unsafe { libc::pthread_getcpuclockid(thread.as_pthread_t(), &mut clock) };
        anyhow::ensure!(found == 0, "the forwarder has no clock");
        daemon::read_clock(clock).context("the forwarder's clock can't be read")
    }
}

impl Drop for Forwarder {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // What it has failed with was seen by whoever asked for its time.
            let _ = thread.join();
        }
    }
}

fn forward([mut one, mut other]: [Tap; 2], ends: &AtomicBool) -> anyhow::Result<()> {
    let mut room = vec![0; ROOM];
    let look = Timespec {
        tv_sec: 0,
        tv_nsec: LOOK.subsec_nanos().into(),
    };
    while !ends.load(Ordering::Relaxed) {
        let moved = pass(&mut one, &mut other, &mut room)? + pass(&mut other, &mut one, &mut room)?;
        if moved == 0 {
            let fds = [&one, &other].map(|tap| tap.fd().expect("a TAP has a descriptor"));
            let mut fds = fds.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
            // Woken for no reason is awake, too.
            let _ = poll(&mut fds, Some(&look));
        }
    }
    Ok(())
}

fn pass(from: &mut Tap, to: &mut Tap, room: &mut [u8]) -> anyhow::Result<usize> {
    for moved in 0..BATCH {
        let Some((len, meta)) = from.read_frame(room, &mut [])? else {
            return Ok(moved);
        };
        to.write_frame(&room[..len], meta)?;
    }
    Ok(BATCH)
}
