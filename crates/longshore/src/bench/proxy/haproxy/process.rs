//! The process of HAProxy.

use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use crate::bench::daemon::{self, Daemon};
use crate::bench::folder::Folder;

/// HAProxy, until this is dropped.
pub struct Haproxy {
    daemon: Daemon,
    _folder: Folder,
}

impl Haproxy {
    /// Starts it in the network namespace of the calling thread, and waits until it listens.
    ///
    /// # Errors
    /// When it is not installed, or does not listen.
    pub fn start(front: SocketAddr, back: SocketAddr, clients: u32) -> anyhow::Result<Self> {
        let program = daemon::program("haproxy", "haproxy")?;
        let folder = Folder::create("proxy")?;
        let config = folder.write("haproxy.cfg", text(front, back, clients))?;
        let mut command = Command::new(program);
        command.arg("-db").arg("-f").arg(config);
        let mut daemon = Daemon::start("haproxy", folder.path().join("log"), command)?;
        daemon.await_listening(front)?;
        Ok(Self {
            daemon,
            _folder: folder,
        })
    }

    /// The processor time that it has had, all of its threads together.
    ///
    /// # Errors
    /// When it has ended.
    pub fn processor_time(&self) -> anyhow::Result<Duration> {
        daemon::processor_time(self.daemon.pid())
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
