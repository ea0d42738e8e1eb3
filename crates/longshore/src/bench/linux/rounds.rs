//! All modes against each other.

use std::time::Duration;

use super::bulk::{self, Bulk, BulkCase};
use super::case::{Case, Counted, Counters, Mode, NicFigures, Report, Work, ratios};
use super::network::Network;
use super::reading::{self, Reading, ReadingCase};
use super::server::Server;
use super::settings::{Program, Settings};
use crate::bench::case::{Round, Unit};
use crate::bench::folder::Folder;
use crate::bench::rounds::{Rig, Turn, progress, take_turns};
use crate::bench::web::allow_files;
use crate::bench::web::site::Site;
use crate::bench::web::wrk::Wrk;

/// The first mode's port; the others follow.
const PORT: u16 = 8080;

/// Measures as the settings say.
///
/// # Errors
/// When a program is missing or fails, or without privileges.
pub fn measure(settings: &Settings) -> anyhow::Result<Report> {
    allow_files(settings.requests.connections)?;
    let folder = Folder::create("linux")?;
    let site = Site::create(&folder, settings.requests.file_bytes)?;
    let client = match settings.program {
        Program::Nginx => Some(Wrk::prepare(&folder, &site, settings.requests)?),
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
    let took = Duration::from_secs(settings.requests.seconds.into());
    let bulks = bulk::ALL.map(|kind| Bulk::open(&network, kind, took));
    let readings = reading::ALL.map(|reader| Reading::open(&network, reader, took));
    let mut machines = Machines {
        servers,
        bulks: bulks.into_iter().collect::<anyhow::Result<Vec<_>>>()?,
        readings: readings.into_iter().collect::<anyhow::Result<Vec<_>>>()?,
    };
    let progress = progress(settings.rounds.json);
    let medians = take_turns(&mut machines, settings.rounds.count, Unit::BYTE, &progress)?;
    let bytes_verified = medians.iter().all(|median| median.verified);
    progress.finish_and_clear();
    let (mut cases, mut bulk, mut reading) = (Vec::new(), Vec::new(), Vec::new());
    for median in medians {
        match median.mode {
            Work::Serve(mode) => cases.push(Case::new(mode, median)),
            Work::Carry(carrier, way) => bulk.push(BulkCase::new((carrier, way), median)),
            Work::Read(reader) => reading.push(ReadingCase::new(reader, median)),
        }
    }
    notes.extend(cases.iter().filter_map(Case::note));
    notes.extend(reading.iter().filter_map(ReadingCase::note));
    Ok(Report {
        settings: settings.parameters(),
        ratios: reading::ratios(&reading, ratios(&cases)),
        nic: NicFigures::of((&cases, &bulk), settings.requests.connections, memory_idle),
        cases,
        bulk,
        reading,
        bytes_verified,
        notes,
    })
}

/// What takes turns: servers, then carriers, then readers.
struct Machines<'a> {
    servers: Vec<Server<'a>>,
    bulks: Vec<Bulk<'a>>,
    readings: Vec<Reading<'a>>,
}

/// Whose turn it is.
enum Machine<'m, 'a> {
    Server(&'m mut Server<'a>),
    Bulk(&'m mut Bulk<'a>),
    Reading(&'m mut Reading<'a>),
}

impl<'a> Machines<'a> {
    fn at(&mut self, turn: usize) -> Machine<'_, 'a> {
        let (servers, bulks) = (self.servers.len(), self.bulks.len());
        if turn < servers {
            Machine::Server(&mut self.servers[turn])
        } else if turn < servers + bulks {
            Machine::Bulk(&mut self.bulks[turn - servers])
        } else {
            Machine::Reading(&mut self.readings[turn - servers - bulks])
        }
    }
}

impl Rig for Machines<'_> {
    type Mode = Work;
    type Counted = Counted;

    fn turns(&self) -> Vec<Turn<Work>> {
        let servers = self.servers.iter().map(|server| Work::Serve(server.mode()));
        let bulks = self.bulks.iter().map(Bulk::kind);
        let bulks = bulks.map(|(carrier, way)| Work::Carry(carrier, way));
        let readings = self.readings.iter().map(|it| Work::Read(it.reader()));
        servers
            .chain(bulks)
            .chain(readings)
            .map(Turn::from)
            .collect()
    }

    fn round(&mut self, turn: usize) -> anyhow::Result<Vec<Round<Counted>>> {
        let round = match self.at(turn) {
            Machine::Server(server) => server.round()?,
            Machine::Bulk(bulk) => bulk.round()?,
            Machine::Reading(reading) => reading.round()?,
        };
        Ok(vec![round])
    }

    fn warmed_up(&mut self, turn: usize) -> anyhow::Result<()> {
        match self.at(turn) {
            Machine::Server(server) => server.warmed_up(),
            Machine::Bulk(bulk) => bulk.warmed_up(),
            Machine::Reading(reading) => reading.warmed_up(),
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
