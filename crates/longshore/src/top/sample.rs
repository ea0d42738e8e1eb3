//! What services tell at one time.

use std::time::Instant;

use anyhow::{Result, bail};
use rustix::process::Pid;

use super::threads::{Thread, resident_bytes, threads_of};
use crate::control::{Answer, Client, CounterGroup, Request, Service, Socket};

/// All services at one time.
#[derive(Clone, Debug)]
pub struct Sample {
    /// The services, in the order of the command line.
    pub services: Vec<Reading>,
}

/// One service.
#[derive(Clone, Debug)]
pub struct Reading {
    /// Its name.
    pub name: String,
    /// When it was asked.
    pub at: Instant,
    /// What it told; or why it told nothing.
    pub state: Result<State, String>,
}

/// What a service told, and what the system tells of its processes.
#[derive(Clone, Debug, Default)]
pub struct State {
    /// The process that listens at the control socket; none in another PID namespace.
    pub process: Option<Pid>,
    /// Threads of that process and of those that it started.
    pub threads: Vec<Thread>,
    /// Resident memory of those processes.
    pub resident_bytes: u64,
    /// Its counters.
    pub groups: Vec<CounterGroup>,
    /// Its connections and listeners; a service without sockets has none.
    pub sockets: Vec<Socket>,
}

impl Sample {
    /// Asks all of them at a time.
    pub fn take(services: &[Service]) -> Sample {
        let services = Service::each(services, |service| Reading {
            name: service.name.clone(),
            at: Instant::now(),
            state: State::ask(service).map_err(|error| format!("{error:#}")),
        });
        Sample { services }
    }
}

impl State {
    fn ask(service: &Service) -> Result<State> {
        let mut client = Client::connect(&service.socket)?;
        let Answer::Stat(groups) = client.ask(&Request::Stat)? else {
            bail!("the service gave an unexpected answer; it may be of another version");
        };
        let sockets = match client.exchange(&Request::Sockets)? {
            Answer::Sockets(sockets) => sockets,
            // A NIC without a stack of its own refuses.
            _ => Vec::new(),
        };
        let process = client.process().ok();
        Ok(State {
            process,
            threads: process.map(threads_of).unwrap_or_default(),
            resident_bytes: process.map(resident_bytes).unwrap_or_default(),
            groups,
            sockets,
        })
    }
}
