//! A program that runs beside a benchmark.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use rustix::process::{Pid, Signal, kill_process, set_parent_process_death_signal};

/// Longest time until it listens.
const START: Duration = Duration::from_secs(10);
/// Longest time until it ends when it is asked to.
const END: Duration = Duration::from_secs(15);
/// How often to look.
const PAUSE: Duration = Duration::from_millis(10);

/// A running program. When this is dropped, the program and all that it has started end; so they do when the thread that has
/// started it ends.
#[derive(Debug)]
pub struct Daemon {
    name: String,
    process: Child,
    log: PathBuf,
}

impl Daemon {
    /// Starts it in the network namespace of the calling thread. What it writes goes to the log.
    ///
    /// # Errors
    /// When it can't be started.
    pub fn start(name: &str, log: PathBuf, mut command: Command) -> anyhow::Result<Self> {
        let output = File::create(&log)?;
        command.stdin(Stdio::null());
        command.stdout(output.try_clone()?).stderr(output);
        end_with_us(&mut command);
        let process = command.spawn();
        Ok(Self {
            name: name.to_owned(),
            process: process.with_context(|| format!("{name} can't be started"))?,
            log,
        })
    }

    /// Its process id.
    pub fn pid(&self) -> Pid {
        Pid::from_child(&self.process)
    }

    /// Waits until it listens at that address.
    ///
    /// # Errors
    /// When it does not, or has ended; with what it wrote last.
    pub fn await_listening(&mut self, at: SocketAddr) -> anyhow::Result<()> {
        // Looked up in the kernel's table: a connection to try may have effects.
        let port = format!(":{:04X}", at.port());
        let table = format!("/proc/{}/net/tcp", self.process.id());
        self.wait_for(&format!("listen on {at}"), || {
            fs::read_to_string(&table).is_ok_and(|table| {
                table.lines().any(|line| {
                    let mut fields = line.split_whitespace().skip(1);
                    let is_ours = fields.next().is_some_and(|local| local.ends_with(&port));
                    // 0A is LISTEN.
                    is_ours && fields.nth(1) == Some("0A")
                })
            })
        })
    }

    /// Waits until it is ready to `what`.
    ///
    /// # Errors
    /// When it does not get there, or has ended; with what it wrote last.
    pub fn wait_for(&mut self, what: &str, is_ready: impl Fn() -> bool) -> anyhow::Result<()> {
        let began = Instant::now();
        while !is_ready() {
            let name = &self.name;
            if self.process.try_wait()?.is_some() {
                anyhow::bail!("{name} ended at once: {}", self.last_words());
            }
            anyhow::ensure!(
                began.elapsed() < START,
                "{name} does not {what}: {}",
                self.last_words()
            );
            std::thread::sleep(PAUSE);
        }
        Ok(())
    }

    /// The last line that it has written.
    pub fn last_words(&self) -> String {
        let said = fs::read_to_string(&self.log).unwrap_or_default();
        let last = said.lines().rfind(|line| !line.trim().is_empty());
        last.unwrap_or("it does not say why").to_owned()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let children = descendants(self.pid());
        let _ = kill_process(self.pid(), Signal::TERM);
        let began = Instant::now();
        while matches!(self.process.try_wait(), Ok(None)) {
            if began.elapsed() > END {
                let _ = self.process.kill();
                for child in children {
                    let _ = kill_process(child, Signal::KILL);
                }
                let _ = self.process.wait();
                return;
            }
            std::thread::sleep(PAUSE);
        }
    }
}

/// The program that this is about to start ends when we do, however we do.
pub fn end_with_us(command: &mut Command) {
    // SAFETY: between fork and exec there is only a system call, which neither allocates nor locks.
    unsafe {
        command.pre_exec(|| {
            set_parent_process_death_signal(Some(Signal::TERM))?;
            Ok(())
        });
    }
}

/// A program of another package than ours.
///
/// # Errors
/// When it is not there; says how to install it.
pub fn program(name: &str, package: &str) -> anyhow::Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    // Debian keeps some in sbin, which not everybody's PATH has.
    std::env::split_paths(&path)
        .chain(["/usr/sbin".into(), "/sbin".into()])
        .map(|folder| folder.join(name))
        .find(|place| place.is_file())
        .with_context(|| {
            format!("there is no {name}; install it, with `apt-get install {package}` on Debian")
        })
}

/// The processor time that a process has had, all of its threads together, as the scheduler counts it in nanoseconds.
///
/// # Errors
/// When it has ended.
pub fn processor_time(pid: Pid) -> anyhow::Result<Duration> {
    let ended = || anyhow::anyhow!("process {} has ended", pid.as_raw_nonzero());
    let mut clock = 0;
    // SAFETY: the function writes a clock's number to the place that it is given.
    let found = unsafe { libc::clock_getcpuclockid(pid.as_raw_nonzero().get(), &mut clock) };
    anyhow::ensure!(found == 0, ended());
    read_clock(clock).with_context(ended)
}

/// What a clock shows; `None` when there is no such clock.
pub fn read_clock(clock: libc::clockid_t) -> Option<Duration> {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the function writes a time to the place that it is given.
    let read = unsafe { libc::clock_gettime(clock, &mut time) };
    (read == 0).then(|| Duration::new(time.tv_sec as u64, time.tv_nsec as u32))
}

/// Of a process and its children that which does the work: the first child of the first child, and so on.
pub fn worker(of: Pid) -> Pid {
    descendants(of).last().copied().unwrap_or(of)
}

/// The first child of a process, its first child, and so on.
fn descendants(of: Pid) -> Vec<Pid> {
    let mut found = Vec::new();
    let mut last = of;
    while let Some(child) = first_child(last) {
        found.push(child);
        last = child;
    }
    found
}

fn first_child(of: Pid) -> Option<Pid> {
    let pid = of.as_raw_nonzero();
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).ok()?;
    let first = children.split_whitespace().next()?;
    Pid::from_raw(first.parse().ok()?)
}
