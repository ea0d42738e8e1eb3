//! The process of HAProxy.

use std::io::Read;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context as _;

/// Where Debian puts it; not on everybody's path.
const PLACES: [&str; 2] = ["haproxy", "/usr/sbin/haproxy"];
/// Longest time until it listens.
const PATIENCE: Duration = Duration::from_secs(10);

/// HAProxy, until this is dropped.
pub struct Haproxy {
    process: Child,
    config: PathBuf,
}

impl Haproxy {
    /// Starts it in the network namespace of the calling thread, and waits until it listens.
    ///
    /// # Errors
    /// When it is not installed, or does not listen.
    pub fn start(front: SocketAddr, back: SocketAddr, clients: u32) -> anyhow::Result<Self> {
        let name = format!("longshore-bench-{}.haproxy", std::process::id());
        let config = std::env::temp_dir().join(name);
        std::fs::write(&config, text(front, back, clients))
            .with_context(|| format!("{} can't be written", config.display()))?;
        let started = PLACES.iter().find_map(|place| {
            let mut command = Command::new(place);
            command.arg("-db").arg("-f").arg(&config);
            command.stdin(Stdio::null()).stdout(Stdio::null());
            command.stderr(Stdio::piped());
            command.spawn().ok()
        });
        let Some(process) = started else {
            let _ = std::fs::remove_file(&config);
            anyhow::bail!(
                "there is no haproxy; install it, with `apt-get install haproxy` on Debian"
            );
        };
        let mut haproxy = Self { process, config };
        haproxy.await_listening(front)?;
        Ok(haproxy)
    }

    /// The processor time that it has had, all of its threads together.
    ///
    /// # Errors
    /// When it has ended.
    pub fn processor_time(&self) -> anyhow::Result<Duration> {
        let mut clock = 0;
        // SAFETY: the function writes a clock's number to the place that it is given.
        let found =
            unsafe { libc::clock_getcpuclockid(self.process.id() as libc::pid_t, &mut clock) };
        anyhow::ensure!(found == 0, "HAProxy has ended");
        let mut time = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: the function writes a time to the place that it is given.
        let read = unsafe { libc::clock_gettime(clock, &mut time) };
        anyhow::ensure!(read == 0, "HAProxy has ended");
        Ok(Duration::new(time.tv_sec as u64, time.tv_nsec as u32))
    }

    /// Looks into the kernel's table of sockets: a connection to try would go on to the server.
    fn await_listening(&mut self, front: SocketAddr) -> anyhow::Result<()> {
        let port = format!(":{:04X}", front.port());
        let began = Instant::now();
        loop {
            let table = std::fs::read_to_string("/proc/thread-self/net/tcp")?;
            let listens = table.lines().any(|line| {
                let mut fields = line.split_whitespace().skip(1);
                let is_ours = fields.next().is_some_and(|local| local.ends_with(&port));
                // 0A is LISTEN.
                is_ours && fields.nth(1) == Some("0A")
            });
            if listens {
                return Ok(());
            }
            if self.process.try_wait()?.is_some() {
                let mut said = String::new();
                if let Some(stderr) = &mut self.process.stderr {
                    stderr.read_to_string(&mut said)?;
                }
                let last = said.lines().last().unwrap_or("it does not say why");
                anyhow::bail!("haproxy ended at once: {last}");
            }
            anyhow::ensure!(
                began.elapsed() < PATIENCE,
                "haproxy does not listen on {front}"
            );
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Haproxy {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_file(&self.config);
    }
}

/// One thread, TCP, the same as our own load balancer's configuration.
fn text(front: SocketAddr, back: SocketAddr, clients: u32) -> String {
    // Some more than there are at once: those that end are beside those that go on.
    let most = 2 * clients + 256;
    format!(
        "global
    nbthread 1
    maxconn {most}
defaults
    mode tcp
    timeout connect 5s
    timeout client 60s
    timeout server 60s
listen bench
    bind {front} backlog 4096
    server bench {back}
"
    )
}
