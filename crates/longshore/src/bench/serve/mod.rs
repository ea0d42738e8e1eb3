//! `longshore bench serve`: our server on our stack and NIC, over a TAP, beside nginx on Linux's TCP.

mod case;
mod hosts;
mod server;
mod settings;

#[cfg(test)]
mod tests;

use std::time::Duration;

use super::case::{Mode as _, Round, Unit};
use super::experiment::{CaseOf, Experiment, ReportOf};
use super::folder::Folder;
use super::parameters::Parameters;
use super::printed::times;
use super::ratios::Ratios;
use super::rounds::{Rig, Turn};
use super::settings::Rounds;
use super::web::allow_files;
use super::web::site::Site;
use super::web::wrk::Wrk;
use crate::report::{Bar, Bars, Column, Page, Rows, bytes};
use case::{Counted, Mode, Program};
use hosts::Hosts;
use server::Server;
pub use settings::Settings;

/// The servers of all modes, at rest.
pub struct Servers {
    servers: Vec<Server>,
    hosts: Hosts,
    wrk: Wrk,
    // Behind all that have files in it.
    _folder: Folder,
}

impl Rig for Servers {
    type Mode = Mode;
    type Counted = Counted;

    fn turns(&self) -> Vec<Turn<Mode>> {
        let modes = self.servers.iter().map(Server::mode);
        modes.map(Turn::from).collect()
    }

    fn round(&mut self, turn: usize) -> anyhow::Result<Vec<Round<Counted>>> {
        let server = &self.servers[turn];
        let before = server.processor_time()?;
        let client = &self.hosts.client;
        let load = self.wrk.run(client, server.url(), server.compares())?;
        let took = server.processor_time()?.since(before);
        Ok(vec![case::round(&load, took)])
    }

    fn warmed_up(&mut self, turn: usize) -> anyhow::Result<()> {
        self.servers[turn].warmed_up();
        Ok(())
    }
}

impl Experiment for Settings {
    const NAME: &'static str = "serve";
    const UNIT: Unit = Unit::of("request", "requests_per_host_core");
    const MEASURED: &'static str = "the server";
    const ORIGINAL: &'static str = "the file, in the first round";
    type Rig = Servers;
    type Figures = ();

    fn run(&self) -> &Rounds {
        &self.rounds
    }

    fn parameters(&self) -> Parameters {
        Parameters::default()
            .requests(&self.requests)
            .rounds(&self.rounds)
    }

    fn summary(&self) -> String {
        format!(
            "A file of {}, {} connections that stay open, {} s for each mode and round. The client is wrk on Linux's TCP. nginx, with one worker, is \
             reached over a pair of virtual Ethernet interfaces; longshore over a TAP. Processor time is user and system.",
            bytes(self.requests.file_bytes),
            self.requests.connections,
            self.requests.seconds
        )
    }

    fn rig(&self, _notes: &mut Vec<String>) -> anyhow::Result<Servers> {
        allow_files(self.requests.connections)?;
        let folder = Folder::create("serve")?;
        let site = Site::create(&folder, self.requests.file_bytes)?;
        let wrk = Wrk::prepare(&folder, &site, self.requests)?;
        let hosts = Hosts::create()?;
        let servers = (0..).zip(Mode::ALL).map(|(number, mode)| {
            let at = hosts::Place { number, mode };
            Server::start(&hosts, (&folder, &site), at, self.requests.connections)
        });
        Ok(Servers {
            servers: servers.collect::<anyhow::Result<_>>()?,
            hosts,
            wrk,
            _folder: folder,
        })
    }

    fn ratios(cases: &[CaseOf<Self>]) -> Ratios {
        let of = |mode, rate: fn(&Counted) -> f64| {
            let found = cases.iter().find(|case| case.mode == mode)?;
            Some(rate(&found.counted))
        };
        let over = |first, second, rate| Some(of(first, rate)? / of(second, rate)?);
        let by_host: fn(&Counted) -> f64 = |counted| counted.requests_per_host_cpu_second;
        let by_all: fn(&Counted) -> f64 = |counted| counted.requests_per_cpu_second;
        let https = Mode::https;
        Ratios::default()
            .with(
                "https_host",
                "HTTPS: longshore's host thread over nginx",
                over(https(Program::Serve), https(Program::Nginx), by_host),
            )
            .with(
                "https_all",
                "HTTPS: all of longshore's threads, NIC included, over nginx",
                over(https(Program::Serve), https(Program::Nginx), by_all),
            )
            .with(
                "https_one_thread",
                "HTTPS: longshore on one thread, NIC included, over nginx",
                over(
                    https(Program::ServeOneThread),
                    https(Program::Nginx),
                    by_all,
                ),
            )
            .with(
                "https_software_all",
                "HTTPS: all of longshore's threads, without offload, over nginx",
                over(https(Program::ServeSoftware), https(Program::Nginx), by_all),
            )
            .with(
                "http_host",
                "HTTP: longshore's host thread over nginx",
                over(
                    Mode::http(Program::Serve),
                    Mode::http(Program::Nginx),
                    by_host,
                ),
            )
            .with(
                "http_all",
                "HTTP: all of longshore's threads, NIC included, over nginx",
                over(
                    Mode::http(Program::Serve),
                    Mode::http(Program::Nginx),
                    by_all,
                ),
            )
    }

    fn conclusion(report: &ReportOf<Self>) -> Option<String> {
        let (host, all) = (
            report.ratios.get("https_host")?,
            report.ratios.get("https_all")?,
        );
        Some(format!(
            "Of HTTPS, longshore's host thread answers {} as many requests per CPU-second as nginx's worker; all of its threads, the software NIC's \
             included, answer {} as many.",
            times(host),
            times(all)
        ))
    }

    fn sections(&self, report: &ReportOf<Self>, page: &mut Page) {
        let cases = &report.cases;
        let micros = |of: Duration| of.as_secs_f64() * 1e6;
        let rows = Rows::of(cases)
            .column(Column::text("mode"), |case| case.mode.label())
            .column(
                Column::rate("requests per\nCPU-second of\nthe host thread"),
                |case| case.counted.requests_per_host_cpu_second,
            )
            .column(
                Column::rate("requests per\nCPU-second of\nall threads"),
                |case| case.counted.requests_per_cpu_second,
            )
            .column(Column::rate("requests/s"), |case| {
                case.counted.requests_per_second
            })
            .column(Column::number("sent", "Gbit/s"), |case| {
                case.counted.gbit_per_second
            })
            .column(Column::number("busy", "%"), |case| {
                case.counted.busy_percent
            })
            .column(Column::number("median\nlatency", "µs"), |case| {
                case.counted.latency_us.p50
            })
            .column(Column::number("99 %\nlatency", "µs"), |case| {
                case.counted.latency_us.p99
            });
        let bars = cases.iter().map(|case| {
            let counted = &case.counted;
            let requests = case.cost.count as f64;
            let each = |time| micros(time) / requests;
            Bar {
                label: case.mode.label(),
                parts: vec![each(counted.host), each(counted.all - counted.host)],
            }
        });
        page.heading("Processor time of the server")
            .bars(Bars {
                title: "Microseconds per request".into(),
                legend: vec!["host".into(), "NIC".into()],
                bars: bars.collect(),
            })
            .table(rows)
            .heading("Requests per CPU-second, longshore over nginx")
            .table(report.ratios.table());
    }
}
