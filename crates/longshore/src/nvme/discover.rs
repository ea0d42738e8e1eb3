//! `longshore nvme discover`.

use std::net::{IpAddr, SocketAddr};

use anyhow::{Error, Result, anyhow};
use host::nvme::initiator::{Config, Namespace};
use serde::Serialize;
use wire::nvme::Nqn;
use wire::nvme::log::{DiscoveryEntry, SecurityType, SubsystemType};

use super::driver::{DISCOVERY_PORT, Driver, IO_PORT};
use super::identity::show_uuid;
use super::initiator::Initiator;
use super::options::Discover;
use crate::signals::Interrupted;

/// A subsystem that was found.
#[derive(Debug, Serialize)]
struct Found {
    nqn: String,
    kind: &'static str,
    address: SocketAddr,
    tls: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    namespaces: Option<Vec<Described>>,
    /// Why the namespaces are not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// A namespace.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Described {
    pub(super) nsid: u32,
    pub(super) bytes: u64,
    pub(super) block_size: u32,
    pub(super) usable: bool,
    #[serde(skip)]
    unusable: Option<&'static str>,
    pub(super) write_protected: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) uuid: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) nguid: Option<String>,
}

impl Described {
    pub(super) fn of(namespace: &Namespace) -> Described {
        let text = |id: [u8; 16]| id.iter().map(|byte| format!("{byte:02x}")).collect();
        Described {
            nsid: namespace.nsid,
            bytes: namespace.size(),
            block_size: namespace.block_size(),
            usable: namespace.is_usable(),
            unusable: namespace.unusable(),
            write_protected: namespace.is_write_protected(),
            uuid: namespace.ids.uuid.as_ref().map(show_uuid),
            nguid: namespace.ids.nguid.map(text),
        }
    }

    /// It on one line.
    pub(super) fn line(&self) -> String {
        let mut line = format!(
            "namespace {}: {} in blocks of {}",
            self.nsid,
            indicatif::BinaryBytes(self.bytes),
            self.block_size
        );
        if let Some(uuid) = &self.uuid {
            line.push_str(&format!(", uuid {uuid}"));
        } else if let Some(nguid) = &self.nguid {
            line.push_str(&format!(", nguid {nguid}"));
        }
        if self.write_protected {
            line.push_str(", write protected");
        }
        if let Some(what) = self.unusable {
            line.push_str(&format!(", has {what} (not usable here)"));
        }
        line
    }
}

/// Lists what a discovery controller knows.
pub(super) fn run(options: &Discover) -> Result<()> {
    let mut driver = Driver::new(&options.peer)?;
    let initiator = connect(&mut driver, options)?;
    let log: Vec<DiscoveryEntry> = initiator.controller().discovery_log().to_vec();
    driver.disconnect(initiator)?;

    let mut found = Vec::new();
    for entry in &log {
        let mut one = Found {
            nqn: entry.subnqn.to_string(),
            kind: kind(entry.subtype),
            address: SocketAddr::new(entry.address, entry.port),
            tls: entry.security == SecurityType::TLS13,
            namespaces: None,
            error: None,
        };
        if entry.subtype == SubsystemType::NVM && !options.no_namespaces {
            match namespaces(&mut driver, options, entry.subnqn, one.address) {
                Ok(namespaces) => one.namespaces = Some(namespaces),
                Err(error) if error.is::<Interrupted>() => return Err(error),
                Err(error) => one.error = Some(error.root_cause().to_string()),
            }
        }
        found.push(one);
    }
    driver.end()?;
    match options.json {
        true => outln!("{}", serde_json::to_string_pretty(&found)?),
        false => print(&found),
    }
    Ok(())
}

/// The discovery controller at the port that was given; else at the one for discovery, else at the one for I/O.
fn connect(driver: &mut Driver, options: &Discover) -> Result<Initiator> {
    let identity = driver.identity;
    let mut at = |port| {
        let config = Config::discovery(identity.nqn, identity.id);
        let address = options.peer.address.with_port(port);
        driver.connect(&options.peer, config, address, u32::MAX)
    };
    let error = match at(DISCOVERY_PORT) {
        Err(error) if options.peer.address.port.is_none() && !error.is::<Interrupted>() => error,
        answer => return answer,
    };
    let initiator = at(IO_PORT).map_err(|other| match other.is::<Interrupted>() {
        true => other,
        false => neither(options.peer.address.ip, &error, &other),
    })?;
    eprintln!("longshore: port {DISCOVERY_PORT} does not answer discovery, port {IO_PORT} does");
    Ok(initiator)
}

/// Neither of the usual ports answers.
fn neither(ip: IpAddr, discovery: &Error, io: &Error) -> Error {
    let (first, second) = (
        discovery.root_cause().to_string(),
        io.root_cause().to_string(),
    );
    if first == second {
        return anyhow!(
            "no discovery controller at ports {DISCOVERY_PORT} and {IO_PORT} of {ip}: {first}"
        );
    }
    anyhow!(
        "no discovery controller at {ip}: port {DISCOVERY_PORT}: {first}; port {IO_PORT}: {second}"
    )
}

/// The namespaces of a subsystem, seen from its admin queue.
fn namespaces(
    driver: &mut Driver,
    options: &Discover,
    subsystem: Nqn,
    address: SocketAddr,
) -> Result<Vec<Described>> {
    let identity = driver.identity;
    let config = Config {
        io_queues: 0,
        reconnect: None,
        ..Config::new(subsystem, identity.nqn, identity.id)
    };
    let initiator = driver.connect(&options.peer, config, address, u32::MAX)?;
    let namespaces = initiator.controller().namespaces();
    let described = namespaces.iter().map(Described::of).collect();
    driver.disconnect(initiator)?;
    Ok(described)
}

fn kind(subtype: SubsystemType) -> &'static str {
    match subtype {
        SubsystemType::NVM => "NVM subsystem",
        SubsystemType::REFERRAL => "referral to a discovery subsystem",
        SubsystemType::CURRENT => "this discovery subsystem",
        _ => "unknown",
    }
}

fn print(found: &[Found]) {
    if found.is_empty() {
        outln!("no subsystems");
    }
    for one in found {
        let tls = if one.tls { ", TLS" } else { "" };
        outln!("{}\n  {} at {}{tls}", one.nqn, one.kind, one.address);
        if let Some(error) = &one.error {
            outln!("  namespaces unknown: {error}");
        }
        for namespace in one.namespaces.iter().flatten() {
            outln!("  {}", namespace.line());
        }
    }
}
