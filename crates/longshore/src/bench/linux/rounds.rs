//! All modes against each other.

use std::time::Duration;

use anyhow::Context as _;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::bulk::{self, Bulk, BulkCase};
use super::case::{Case, Counted, Counters, Mode, NicFigures, Report, Work, ratios};
use super::network::Network;
use super::server::Server;
use super::settings::{Program, Settings};
use super::site::Site;
use super::wrk::Wrk;
use crate::bench::case::{Round, Unit};
use crate::bench::folder::Folder;
use crate::bench::rounds::{Rig, Turn, progress, take_turns};

/// The first mode's port; the others follow.
const PORT: u16 = 8080;

/// Measures as the settings say.
///
/// # Errors
/// When a program is missing or fails, or without privileges.
pub fn measure(settings: &Settings) -> anyhow::Result<Report> {
    allow_files(settings.connections)?;
    let folder = Folder::create("linux")?;
    let site = Site::create(&folder, settings.file_bytes)?;
    let client = match settings.program {
        Program::Nginx => Some(Wrk::prepare(&folder, &site, settings.connections)?),
        Program::None => None,
    };
    let network = Network::create(&folder)?;
    let memory_idle = network.nic.peak()?;
    let mut notes = Vec::new();
    let mut servers = Vec::new();
    if let Some(wrk) = &client {
        let rig = Environment {
            settings,
            folder: &folder,
            site: &site,
            wrk,
            network: &network,
        };
        servers = start(rig, &mut notes)?;
    }
    let took = Duration::from_secs(settings.seconds.into());
    let bulks = bulk::ALL.map(|kind| Bulk::open(&network, kind, took));
    let mut machines = Machines {
        servers,
        bulks: bulks.into_iter().collect::<anyhow::Result<Vec<_>>>()?,
    };
    let progress = progress(settings.json);
    let medians = take_turns(&mut machines, settings.rounds, Unit::BYTE, &progress)?;
    let bytes_verified = medians.iter().all(|median| median.verified);
    progress.finish_and_clear();
    let (mut cases, mut bulk) = (Vec::new(), Vec::new());
    for median in medians {
        match median.mode {
            Work::Serve(mode) => cases.push(Case::new(mode, median)),
            Work::Carry(carrier, way) => bulk.push(BulkCase::new((carrier, way), median)),
        }
    }
    notes.extend(cases.iter().filter_map(Case::note));
    Ok(Report {
        settings: settings.parameters(),
        ratios: ratios(&cases),
        nic: NicFigures::of((&cases, &bulk), settings.connections, memory_idle),
        cases,
        bulk,
        bytes_verified,
        notes,
    })
}

/// What takes turns: servers, then carriers.
struct Machines<'a> {
    servers: Vec<Server<'a>>,
    bulks: Vec<Bulk<'a>>,
}

impl Rig for Machines<'_> {
    type Mode = Work;
    type Counted = Counted;

    fn turns(&self) -> Vec<Turn<Work>> {
        let servers = self.servers.iter().map(|server| Work::Serve(server.mode()));
        let bulks = self.bulks.iter().map(Bulk::kind);
        let bulks = bulks.map(|(carrier, way)| Work::Carry(carrier, way));
        servers.chain(bulks).map(Turn::from).collect()
    }

    fn round(&mut self, turn: usize) -> anyhow::Result<Vec<Round<Counted>>> {
        let servers = self.servers.len();
        let round = match self.servers.get_mut(turn) {
            Some(server) => server.round()?,
            None => self.bulks[turn - servers].round()?,
        };
        Ok(vec![round])
    }

    fn warmed_up(&mut self, turn: usize) -> anyhow::Result<()> {
        let servers = self.servers.len();
        match self.servers.get_mut(turn) {
            Some(server) => server.warmed_up(),
            None => self.bulks[turn - servers].warmed_up(),
        }
        Ok(())
    }
}

/// Starts the servers of all modes; notes those that can't be.
fn start<'a>(rig: Environment<'a>, notes: &mut Vec<String>) -> anyhow::Result<Vec<Server<'a>>> {
    let mut servers = Vec::new();
    for (mode, port) in Mode::ALL.into_iter().zip(PORT..) {
        match Server::start(rig, mode, port) {
            Ok(server) => servers.push(server),
            // What they are all compared with has to be there.
            Err(error) if !mode.is_kernel_tls() => return Err(error),
            Err(error) => notes.push(format!("{} was left out: {error:#}", mode.label())),
        }
    }
    Ok(servers)
}

/// What was counted since then.
pub fn since(now: Counters, before: &Counters) -> Counters {
    now.into_iter()
        .map(|(name, value)| {
            let before = before.get(&name).copied().unwrap_or(0);
            (name, value.saturating_sub(before))
        })
        .filter(|(_, value)| *value > 0)
        .collect()
}

/// What the servers of all modes have in common.
#[derive(Clone, Copy)]
pub struct Environment<'a> {
    /// What was asked.
    pub settings: &'a Settings,
    /// For files.
    pub folder: &'a Folder,
    /// What to serve.
    pub site: &'a Site,
    /// The client.
    pub wrk: &'a Wrk,
    /// Both hosts.
    pub network: &'a Network,
}

/// Every connection is a descriptor, of the client's and of the server's; beside them are the files that are being sent.
fn allow_files(connections: u32) -> anyhow::Result<()> {
    let wanted = u64::from(connections) * 3 / 2 + 1024;
    let have = getrlimit(Resource::Nofile);
    if have.current.is_none_or(|have| have >= wanted) {
        return Ok(());
    }
    let raised = |maximum| {
        let limit = Rlimit {
            current: Some(wanted),
            maximum,
        };
        setrlimit(Resource::Nofile, limit)
    };
    // The hard limit as well, where that may be raised.
    let allowed = raised(have.maximum).or_else(|_| raised(Some(wanted)));
    allowed.with_context(|| {
        format!(
            "{connections} connections need {wanted} descriptors in a process: raise the limit (`ulimit -Hn`), or give \
             --connections less"
        )
    })
}
