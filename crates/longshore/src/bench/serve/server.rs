//! The server of one mode.

use std::fs;
use std::process::Command;
use std::time::Duration;

use anyhow::Context as _;
use rustix::process::Pid;

use super::case::{Mode, Program};
use super::hosts::{Hosts, Place};
use crate::bench::daemon::{self, Daemon};
use crate::bench::folder::Folder;
use crate::bench::web::nginx::{Nginx, Plan, Tls};
use crate::bench::web::site::{FILE, Site};
use crate::control::{self, Request};

/// The name of the NIC's thread.
const NIC: &str = "nic";

/// A running server.
pub struct Server {
    mode: Mode,
    url: String,
    process: Process,
    /// The first round compares what comes.
    compares: bool,
}

enum Process {
    Nginx(Nginx),
    Serve(Daemon),
}

/// Processor time, user and system.
#[derive(Clone, Copy, Debug)]
pub struct ProcessorTime {
    /// Of the thread that has the host's stack and the application.
    pub host: Duration,
    /// Of all threads.
    pub all: Duration,
}

impl ProcessorTime {
    /// What has come since then.
    pub fn since(self, before: Self) -> Self {
        let all = self.all.saturating_sub(before.all);
        Self {
            host: self.host.saturating_sub(before.host).min(all),
            all,
        }
    }
}

impl Server {
    /// Starts it, and waits until it serves.
    ///
    /// # Errors
    /// When a program is missing, or does not start.
    pub fn start(
        hosts: &Hosts,
        (folder, site): (&Folder, &Site),
        place: Place,
        connections: u32,
    ) -> anyhow::Result<Self> {
        let mode = place.mode;
        let at = place.listens_at();
        let process = match mode.program {
            Program::Nginx => {
                let plan = Plan {
                    name: mode.name(),
                    tls: if mode.https { Tls::Library } else { Tls::No },
                    at,
                    site,
                    connections,
                    environment: Vec::new(),
                };
                Process::Nginx(Nginx::start(&hosts.nginx, folder, plan)?)
            }
            _ => Process::Serve(start_serve(hosts, (folder, site), place)?),
        };
        let scheme = if mode.https { "https" } else { "http" };
        Ok(Self {
            mode,
            url: format!("{scheme}://{at}/{FILE}"),
            process,
            compares: true,
        })
    }

    /// Who serves, and what.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// What the client asks for.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Whether all that comes is compared with the file.
    pub fn compares(&self) -> bool {
        self.compares
    }

    /// The first round is over: the others compare nothing.
    pub fn warmed_up(&mut self) {
        self.compares = false;
    }

    /// What it has had until now.
    ///
    /// # Errors
    /// When it has ended.
    pub fn processor_time(&self) -> anyhow::Result<ProcessorTime> {
        match &self.process {
            Process::Nginx(nginx) => {
                let all = nginx.processor_time()?;
                Ok(ProcessorTime { host: all, all })
            }
            Process::Serve(daemon) => {
                let time = of_serve(daemon.pid());
                time.map_err(|error| error.context(daemon.last_words()))
            }
        }
    }
}

fn start_serve(
    hosts: &Hosts,
    (folder, site): (&Folder, &Site),
    place: Place,
) -> anyhow::Result<Daemon> {
    let name = place.mode.name();
    let control = folder.path().join(format!("{name}.sock"));
    let mut command = Command::new(std::env::current_exe().context("where this program is")?);
    command.arg("serve").arg("--root").arg(&site.root);
    command.args(["--tap", &format!("ls{}", place.number)]);
    command.args([
        "--ip",
        &place.server_cidr(),
        "--peer-ip",
        &place.client_cidr(),
    ]);
    command.args(["--port", &place.listens_at().port().to_string()]);
    command.arg("--control").arg(&control);
    if place.mode.https {
        command.arg("--cert").arg(&site.certificate);
        command.arg("--key").arg(&site.key);
    } else {
        command.arg("--plain");
    }
    match place.mode.program {
        Program::ServeSoftware => command.args(["--offload", "none"]),
        Program::ServeOneThread => command.arg("--one-thread"),
        Program::Serve | Program::Nginx => &mut command,
    };
    let log = folder.path().join(format!("{name}.log"));
    let name = format!("longshore {name}");
    let mut daemon = hosts
        .client
        .run(move || Daemon::start(&name, log, command))?;
    let answers = || control::ask(&control, Request::Stat).is_ok();
    daemon.wait_for("answer on its control socket", answers)?;
    Ok(daemon)
}

/// The scheduler counts for each thread. All that is not the NIC's counts as the host's.
fn of_serve(pid: Pid) -> anyhow::Result<ProcessorTime> {
    let all = daemon::processor_time(pid)?;
    let mut nic = Duration::ZERO;
    let tasks = format!("/proc/{}/task", pid.as_raw_nonzero());
    for task in fs::read_dir(&tasks).with_context(|| tasks.clone())? {
        let task = task?.path();
        // A thread may end meanwhile: it is not the NIC's.
        let Ok(name) = fs::read_to_string(task.join("comm")) else {
            continue;
        };
        if name.trim() == NIC {
            let path = task.join("schedstat");
            let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
            let on_processor = text
                .split_whitespace()
                .next()
                .and_then(|it| it.parse().ok());
            nic += Duration::from_nanos(on_processor.context("schedstat is not as it should be")?);
        }
    }
    Ok(ProcessorTime {
        host: all.saturating_sub(nic),
        all,
    })
}
