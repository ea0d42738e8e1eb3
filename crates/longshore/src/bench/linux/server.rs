//! The server of one mode, and its part in a round.

use std::ffi::OsString;

use anyhow::Context as _;

use super::case::{Counted, Counters, Mode};
use super::network::Network;
use super::rounds::{Environment, since};
use crate::bench::case::Round;
use crate::bench::cycles_per_second;
use crate::bench::tap::Measured;
use crate::bench::web::nginx::{Nginx, Plan, Tls};
use crate::bench::web::site::FILE;
use crate::run::{CountersFile, NIC_VARIABLE, ZEROCOPY_VARIABLE, library};

/// A server, which the client asks in its rounds.
pub struct Server<'a> {
    rig: Environment<'a>,
    mode: Mode,
    url: String,
    nginx: Nginx,
    /// What the preloaded library counts in.
    counters: Option<CountersFile>,
    /// The first round compares what comes.
    compares: bool,
}

impl<'a> Server<'a> {
    /// Starts the server.
    ///
    /// # Errors
    /// When a program or library is missing, or does not start.
    pub fn start(rig: Environment<'a>, mode: Mode, port: u16) -> anyhow::Result<Self> {
        let mut environment: Vec<(&'static str, OsString)> = Vec::new();
        let mut counters = None;
        if mode.is_kernel_tls() {
            let file = CountersFile::create().context("a file for the counters")?;
            environment.push((CountersFile::VARIABLE, file.path().into()));
            environment.push(("LD_PRELOAD", library::preload(&library::find()?)?));
            counters = Some(file);
        }
        if mode.is_offload() {
            environment.push((NIC_VARIABLE, rig.network.nic.control().into()));
        }
        if mode == Mode::OffloadZc {
            environment.push((ZEROCOPY_VARIABLE, "1".into()));
        }
        let at = Network::at(port);
        let tls = match mode {
            Mode::Http => Tls::No,
            Mode::Https => Tls::Library,
            _ => Tls::Kernel,
        };
        let plan = Plan {
            name: mode.name(),
            tls,
            at,
            site: rig.site,
            connections: rig.settings.requests.connections,
            environment,
        };
        let scheme = if mode.is_tls() { "https" } else { "http" };
        Ok(Self {
            rig,
            mode,
            url: format!("{scheme}://{at}/{FILE}"),
            nginx: Nginx::start(&rig.network.server, rig.folder, plan)?,
            counters,
            compares: true,
        })
    }

    /// By whom TLS is done.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// What the library has counted, and what the NIC has.
    fn counters(&self) -> anyhow::Result<Counters> {
        let mut all = self.rig.network.nic.counters()?;
        if let Some(file) = &self.counters {
            let library = file.read().context("the library's counters")?;
            let named = library
                .iter()
                .map(|(name, n)| (format!("library.{name}"), n));
            all.extend(named);
        }
        Ok(all)
    }
}

impl Server<'_> {
    /// Lets the client ask for as long as a round takes.
    ///
    /// # Errors
    /// When a program has ended, or not all was answered.
    pub fn round(&mut self) -> anyhow::Result<Round<Counted>> {
        let before = self.nginx.processor_time()?;
        let counters_before = self.counters()?;
        let wrk = self.rig.wrk;
        let Network { nic, client, .. } = self.rig.network;
        nic.forget_peak()?;
        let nic_before = nic.processor_time()?;
        let load = wrk.run(client, &self.url, self.compares)?;
        let nic_took = nic.processor_time()? - nic_before;
        let worker = self.nginx.processor_time()? - before;
        let measured = Measured {
            cycles: worker.as_secs_f64() * cycles_per_second(),
            verified: load.wrong == 0,
        };
        let counted = Counted {
            requests: load.requests,
            seconds: load.took.as_secs_f64(),
            worker_seconds: worker.as_secs_f64(),
            nic_seconds: nic_took.as_secs_f64(),
            nic_memory: nic.peak()?,
            latency: load.latency,
            counters: since(self.counters()?, &counters_before),
        };
        Ok(Round::of_linux(load.bytes, measured, counted))
    }

    /// The first round is over: the others compare nothing.
    pub fn warmed_up(&mut self) {
        self.compares = false;
    }
}
