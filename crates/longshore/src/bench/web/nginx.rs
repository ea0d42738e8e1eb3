//! nginx, with a configuration and a process of its own for each mode.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use rustix::process::Pid;
use rustix::thread::sched_setaffinity;

use super::namespace::Namespace;
use super::site::Site;
use crate::bench::daemon::{self, Daemon};
use crate::bench::folder::Folder;
use crate::bench::tap::namespace;

/// A running nginx.
pub struct Nginx {
    daemon: Daemon,
    worker: Pid,
}

/// By whom TLS is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tls {
    /// There is no TLS.
    No,
    /// The library that nginx is installed with.
    Library,
    /// The same until the handshake is over, then kernel TLS.
    Kernel,
}

/// What nginx is started with.
pub struct Plan<'a> {
    /// What tells it from others in the same folder.
    pub name: &'static str,
    /// By whom TLS is done.
    pub tls: Tls,
    /// Where to listen.
    pub at: SocketAddr,
    /// What to serve.
    pub site: &'a Site,
    /// Clients at once.
    pub connections: u32,
    /// Environment variables.
    pub environment: Vec<(&'static str, OsString)>,
}

impl Nginx {
    /// Starts it in the namespace, and waits until it listens.
    ///
    /// # Errors
    /// When it is not installed, or does not listen.
    pub fn start(namespace: &Namespace, folder: &Folder, plan: Plan<'_>) -> anyhow::Result<Self> {
        let name = format!("nginx-{}", plan.name);
        let prefix = folder.path().join(&name);
        std::fs::create_dir(&prefix)?;
        let config = folder.write(&format!("{name}/nginx.conf"), configuration(&plan))?;
        let mut command = Command::new(daemon::program("nginx", "nginx-light")?);
        command.arg("-p").arg(&prefix).arg("-c").arg(config);
        command.args(["-e", "stderr"]).envs(plan.environment);
        let log = folder.path().join(format!("{name}.log"));
        let mut daemon = namespace.run(move || Daemon::start(&name, log, command))?;
        daemon.await_listening(plan.at)?;
        let master = daemon.pid();
        daemon.wait_for("start its worker", || daemon::worker(master) != master)?;
        let worker = daemon::worker(master);
        // Alone with its caches, where there is more than one processor.
        if let Some(processor) = namespace::only(0) {
            sched_setaffinity(Some(worker), &processor)?;
        }
        Ok(Self { daemon, worker })
    }

    /// The processor time that its worker has had.
    ///
    /// # Errors
    /// When it has ended.
    pub fn processor_time(&self) -> anyhow::Result<Duration> {
        let time = daemon::processor_time(self.worker);
        time.map_err(|error| error.context(self.daemon.last_words()))
    }
}

/// As Debian's package sets nginx up, but for one worker, no log of requests, and connections that stay.
fn configuration(plan: &Plan<'_>) -> String {
    let Plan { tls, at, site, .. } = plan;
    // Some more than there are at once: those that end are beside those that go on.
    let connections = 2 * plan.connections + 256;
    let listen = match tls {
        Tls::No => "",
        _ => " ssl",
    };
    let ssl = if *tls != Tls::No {
        format!(
            "ssl_certificate {};
            ssl_certificate_key {};
            ssl_protocols TLSv1.2 TLSv1.3;
            ssl_prefer_server_ciphers on;
            {}",
            site.certificate.display(),
            site.key.display(),
            if *tls == Tls::Kernel {
                "ssl_conf_command Options KTLS;"
            } else {
                ""
            }
        )
    } else {
        String::new()
    };
    format!(
        "daemon off;
worker_processes 1;
pid nginx.pid;
error_log stderr;
events {{
    worker_connections {connections};
}}
http {{
    access_log off;
    sendfile on;
    tcp_nopush on;
    keepalive_requests 1000000000;
    client_body_temp_path body;
    proxy_temp_path proxy;
    fastcgi_temp_path fastcgi;
    uwsgi_temp_path uwsgi;
    scgi_temp_path scgi;
    server {{
        listen {at}{listen} backlog=16384;
        {ssl}
        root {root};
    }}
}}
",
        root = site.root.display(),
    )
}
