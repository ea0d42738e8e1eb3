//! The other cores, as the first thread has them.

use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Sender, channel, sync_channel};
use std::sync::{Arc, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use host::runtime::Doorbell;
use nic::Fault;

use super::data_path::DataPath;
use super::other::{Order, Other, Told};
use crate::control::CounterGroup;
use crate::cores::Cores;
use crate::nic_process::supervisor::FAILED;

/// How long an answer is waited for, of a NIC that was started to fail on purpose; and the threads' end.
const PATIENCE: Duration = Duration::from_secs(1);
/// Bytes of a thread's stack: as many as the first thread has.
const STACK: usize = 8 << 20;
/// How often ending threads are looked at.
const LOOK: Duration = Duration::from_millis(1);
/// A process's exit code when one of its threads has panicked, as Rust has it.
const PANICKED: i32 = 101;

/// The threads behind the first one, in the order of their cores. Dropping them ends them.
#[derive(Debug, Default)]
pub struct Others(Vec<Running>);

#[derive(Debug)]
struct Running {
    orders: Sender<Order>,
    bell: Doorbell,
    told: Arc<Told>,
    asked: Asked,
    thread: JoinHandle<()>,
}

/// What a thread was last asked to tell.
#[derive(Debug)]
struct Asked {
    /// How often it was asked.
    times: u64,
    at: Instant,
}

impl Others {
    /// Starts a thread for each, on the second core and those behind it. One that can't go on ends the process, which the supervisor starts
    /// again.
    ///
    /// # Errors
    /// The system has no threads or descriptors to give.
    pub fn start(paths: Vec<DataPath>, cores: &Cores) -> Result<Others> {
        let mut others = Others::default();
        for (core, mut path) in (1..).zip(paths) {
            let (orders, inbox) = channel();
            let bell = Doorbell::new().context("no descriptor for another core")?;
            let told = Arc::<Told>::default();
            let (its_bell, its_told, cores) = (bell.clone(), Arc::clone(&told), cores.clone());
            let thread = thread::Builder::new()
                .name(format!("nic {core}"))
                .stack_size(STACK);
            let thread = thread.spawn(move || {
                end_process_unless(move || {
                    path.pin(&cores, core);
                    Other::new(path, inbox, its_bell, its_told).run()
                });
            });
            others.0.push(Running {
                orders,
                bell,
                told,
                asked: Asked {
                    times: 0,
                    at: Instant::now(),
                },
                thread: thread.context("no thread for another core")?,
            });
        }
        Ok(others)
    }

    /// There is a gate, with these channels of each core's hosts.
    pub fn connect(&self, dealt: impl Iterator<Item = Vec<OwnedFd>>, of_guests: bool) {
        for (running, channels) in self.0.iter().zip(dealt) {
            running.order(Order::Connect {
                channels,
                of_guests,
            });
        }
    }

    /// Has all take no more hosts, and let connections come to rest.
    pub fn drain(&self) {
        self.0.iter().for_each(|it| it.order(Order::Drain));
    }

    /// Whether all have done that.
    pub fn are_at_rest(&self) -> bool {
        let mut told = self.0.iter().map(|it| &it.told);
        told.all(|told| told.is_at_rest.load(Ordering::Acquire))
    }

    /// What each has counted, as it told a moment ago, and has it tell again. `None` if one hangs.
    pub fn counters(&mut self, now: Instant) -> Option<Vec<Vec<CounterGroup>>> {
        self.go_on(now).then(|| {
            let counted = self.0.iter().map(|it| it.told.counted.lock());
            let counted = counted.map(|it| it.unwrap_or_else(PoisonError::into_inner));
            counted.map(|counted| counted.groups()).collect()
        })
    }

    /// Has each tell. False if one hangs: it has not told for a second although it was asked to.
    pub fn go_on(&mut self, now: Instant) -> bool {
        let mut running = self.0.iter_mut();
        running.all(|running| running.goes_on(now))
    }

    /// Has the function of the host at a socket fail. Whether it is there.
    pub fn inject(&self, host: &str, fault: Fault) -> bool {
        self.0.iter().any(|running| {
            let (answer, answered) = sync_channel(1);
            running.order(Order::Inject(Path::new(host).into(), fault, answer));
            answered.recv_timeout(PATIENCE).unwrap_or(false)
        })
    }
}

impl Running {
    fn goes_on(&mut self, now: Instant) -> bool {
        if self.told.answers.load(Ordering::Acquire) != self.asked.times {
            return now.duration_since(self.asked.at) < PATIENCE;
        }
        self.asked = Asked {
            times: self.asked.times + 1,
            at: now,
        };
        self.order(Order::Tell);
        true
    }

    fn order(&self, order: Order) {
        // A thread that ends by itself ends the process: it is there.
        let _ = self.orders.send(order);
        self.bell.ring();
    }
}

impl Drop for Others {
    fn drop(&mut self) {
        self.0.iter().for_each(|it| it.order(Order::Stop));
        let until = Instant::now() + PATIENCE;
        let have_ended = || self.0.iter().all(|it| it.thread.is_finished());
        while !have_ended() && Instant::now() < until {
            thread::sleep(LOOK);
        }
    }
}

/// Does what a thread is for. If that fails or panics, the process ends, whatever its other threads do.
fn end_process_unless(work: impl FnOnce() -> Result<()>) {
    let code = match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(())) => return,
        Ok(Err(error)) => {
            let _ = writeln!(io::stderr(), "longshore: {error:#}");
            FAILED.into()
        }
        // The panic has been told of.
        Err(_) => PANICKED,
    };
    // SAFETY: ends the process without running anything of it.
    unsafe { libc::_exit(code) }
}

#[cfg(test)]
mod tests;
