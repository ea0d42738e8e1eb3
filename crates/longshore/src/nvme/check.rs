//! `longshore nvme connect-check`.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use host::nvme::initiator::{Blocks, ControllerInfo, Io, Namespace};
use l5p::nvme::initiator::Access;
use serde::Serialize;

use super::discover::Described;
use super::driver::Driver;
use super::initiator::Initiator;
use super::options::{ConnectCheck, Disk};

/// Reads whose time is taken.
const PROBES: usize = 32;

/// What was found.
#[derive(Debug, Serialize)]
struct Report {
    address: String,
    subsystem: String,
    host: String,
    controller: u16,
    version: String,
    model: String,
    serial: String,
    firmware: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    tls: Option<Tls>,
    header_digest: bool,
    data_digest: bool,
    /// Data to the controller is aligned to so many bytes.
    alignment: u32,
    max_h2c_data: u32,
    io_queues: u16,
    depth: u16,
    in_capsule: u32,
    max_transfer: u32,
    keep_alive_ms: u128,
    write_cache: bool,
    commands: Vec<&'static str>,
    namespaces: Vec<Described>,
    /// Median time of a read of one block, microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    read_us: Option<f64>,
}

#[derive(Debug, Serialize)]
struct Tls {
    version: String,
    cipher: String,
}

/// Connects, and shows what was negotiated.
pub(super) fn run(options: &ConnectCheck) -> Result<()> {
    let mut driver = Driver::new(&options.disk.peer)?;
    let mut initiator = driver.connect_disk(&options.disk)?;
    let usable = initiator
        .controller()
        .namespaces()
        .iter()
        .find(|ns| ns.is_usable());
    let read_us = match usable.copied() {
        Some(namespace) => Some(probe(&mut driver, &mut initiator, &namespace)?),
        None => None,
    };
    let report = report(&mut driver, &initiator, &options.disk, read_us)?;
    driver.disconnect(initiator)?;
    driver.end()?;
    match options.json {
        true => outln!("{}", serde_json::to_string_pretty(&report)?),
        false => print(&report),
    }
    Ok(())
}

fn report(
    driver: &mut Driver,
    initiator: &Initiator,
    disk: &Disk,
    read_us: Option<f64>,
) -> Result<Report> {
    let controller = initiator.controller();
    let (Some(info), Some(queue)) = (controller.info(), controller.queue(1)) else {
        bail!("the target closed the connection; try again");
    };
    let Some(agreed) = queue.negotiated() else {
        bail!("the target closed the connection; try again");
    };
    let tls = match initiator {
        Initiator::Ours(_) => {
            let stack = driver.attached()?.runtime.stack();
            let tls = stack.sockets().find_map(|socket| socket.tls);
            tls.map(|tls| Tls {
                version: tls.version.to_owned(),
                cipher: tls.cipher.to_owned(),
            })
        }
        Initiator::Linux(_) => None,
    };
    let text = |field: &[u8]| String::from_utf8_lossy(field).trim().to_owned();
    let limits = controller.limits();
    Ok(Report {
        address: initiator.address().to_string(),
        subsystem: disk.nqn.to_string(),
        host: driver.identity.nqn.to_string(),
        controller: controller.id(),
        version: info.version.to_string(),
        model: text(&info.data.model),
        serial: text(&info.data.serial),
        firmware: text(&info.data.firmware),
        tls,
        header_digest: agreed.digests.header,
        data_digest: agreed.digests.data,
        alignment: (u32::from(agreed.cpda) + 1) * 4,
        max_h2c_data: agreed.max_h2c_data,
        io_queues: limits.io_queues,
        depth: limits.depth,
        in_capsule: limits.in_capsule,
        max_transfer: limits.max_transfer,
        keep_alive_ms: controller.config().keep_alive.as_millis(),
        write_cache: info.has_write_cache(),
        commands: commands(info),
        namespaces: controller.namespaces().iter().map(Described::of).collect(),
        read_us,
    })
}

/// The I/O commands that a controller knows.
fn commands(info: &ControllerInfo) -> Vec<&'static str> {
    let known = [
        ("read", true),
        ("write", true),
        ("flush", true),
        ("compare", info.has_compare()),
        ("write zeroes", info.has_write_zeroes()),
        ("dataset management", info.has_dataset_management()),
    ];
    let has = known.iter().filter(|(_, has)| *has);
    has.map(|(name, _)| *name).collect()
}

/// The median time that reading one block takes.
fn probe(driver: &mut Driver, initiator: &mut Initiator, namespace: &Namespace) -> Result<f64> {
    let len = namespace.block_size();
    let pool = initiator.blocks(driver, len, 1)?;
    let block = pool.take().expect("the pool is new");
    let blocks = Blocks { start: 0, count: 1 };
    let io = Io::Read { blocks, fua: false };
    let access = Access {
        nsid: namespace.nsid,
        io,
    };
    let mut times = Vec::new();
    for _ in 0..PROBES {
        let started = Instant::now();
        initiator.submit(access, Some((&block, len)))?;
        let done = loop {
            let progress = driver.turn(initiator)?;
            driver.take_events(initiator)?;
            if let Some(done) = initiator.poll_completion() {
                break done;
            }
            if !progress {
                driver.wait(initiator, &[])?;
            }
        };
        if let Err(status) = done.status.ok() {
            bail!(
                "can't read block 0 of namespace {}: {status}",
                namespace.nsid
            );
        }
        times.push(started.elapsed());
    }
    times.sort_unstable();
    let median: Duration = times[PROBES / 2];
    Ok(median.as_secs_f64() * 1e6)
}

fn print(report: &Report) {
    let yes = |value| if value { "on" } else { "off" };
    let line = |name: &str, value: String| outln!("{name:<18}{value}");
    line("subsystem", report.subsystem.clone());
    line("address", report.address.clone());
    line("host", report.host.clone());
    line(
        "controller",
        format!(
            "{} ({}, serial {}, firmware {}), NVMe {}",
            report.controller, report.model, report.serial, report.firmware, report.version
        ),
    );
    let tls = report.tls.as_ref();
    let tls = tls.map_or("off".to_owned(), |tls| {
        format!("{} {}", tls.version, tls.cipher)
    });
    line("TLS", tls);
    line("header digest", yes(report.header_digest).to_owned());
    line("data digest", yes(report.data_digest).to_owned());
    line("alignment", format!("{} bytes", report.alignment));
    line("MAXH2CDATA", format!("{} bytes", report.max_h2c_data));
    line(
        "I/O queues",
        format!("{} of {} commands", report.io_queues, report.depth),
    );
    line(
        "in-capsule data",
        format!("up to {} bytes", report.in_capsule),
    );
    line(
        "command data",
        format!("up to {} bytes", report.max_transfer),
    );
    line("keep-alive", format!("{} ms", report.keep_alive_ms));
    line(
        "write cache",
        if report.write_cache {
            "volatile"
        } else {
            "none"
        }
        .to_owned(),
    );
    line("commands", report.commands.join(", "));
    for namespace in &report.namespaces {
        outln!("{}", namespace.line());
    }
    if let Some(us) = report.read_us {
        line("block 0 read in", format!("{us:.0} µs, median of {PROBES}"));
    }
}
