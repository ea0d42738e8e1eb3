//! What the NIC is plugged into.

use anyhow::{Context, Result, bail};
use port::bridge::bridge;
use port::impair::{Impair, Impairment, Impairments};
use port::memory::{LinkConfig, try_link};
use port::packet::{Packet, PacketConfig};
use port::tap::TapConfig;
use port::xdp::Xdp;
use port::{LinkState, Port, link_state};
use wire::ethernet::MacAddr;
use wire::packet::Addresses;

use super::hosts::Interfaces;
use super::options::{Options, WireOption};
use crate::attach::{capture, impairment};

/// A wire, as a core has it.
pub type Wire = Box<dyn Port + Send>;

/// Opens the wire that the command line names, for each of so many cores.
///
/// # Errors
/// When there is no such interface, or we may not use it; the message says what to do.
pub fn open(options: &Options, interfaces: &mut Interfaces<'_>, cores: usize) -> Result<Vec<Wire>> {
    let impairment = impairment(&options.line);
    // A super-frame that is lost would take 45 packets with it: an impaired wire carries packets only.
    let clean = impairment == Impairment::default();
    if let WireOption::Packet(name) | WireOption::Xdp(name) = &options.wire {
        check_link(name)?;
    }
    let ports: Vec<Wire> = match &options.wire {
        WireOption::Tap(name) => {
            let config = TapConfig {
                tso: clean,
                checksum: clean,
            };
            let queues = interfaces.open_queues(name, config, cores as u16)?;
            queues.into_iter().map(boxed).collect()
        }
        WireOption::Packet(name) => packet(name, PacketConfig { tso: clean }, cores)?,
        WireOption::Xdp(name) => vec![Box::new(Xdp::open(name)?)],
        WireOption::Mem => (0..cores).map(|_| nowhere(cores)).collect::<Result<_>>()?,
    };
    let ports = ports.into_iter().enumerate().map(|(core, mut port)| {
        if let Some(path) = &options.pcap {
            port = Box::new(capture(port, path)?);
        }
        if !clean {
            let seed = options.line.seed.wrapping_add(core as u64);
            port = Box::new(Impair::new(port, Impairments::both(impairment), seed));
        }
        Ok(port)
    });
    ports.collect()
}

fn boxed(port: impl Port + Send + 'static) -> Wire {
    Box::new(port)
}

/// The first core receives and passes on what is for the others; each sends by itself.
fn packet(name: &str, config: PacketConfig, cores: usize) -> Result<Vec<Wire>> {
    let mut ports = vec![boxed(Packet::open(name, config)?)];
    for _ in 1..cores {
        ports.push(boxed(Packet::open_to_send(name, config)?));
    }
    Ok(ports)
}

/// Nothing is at the other end: frames for the wire are lost. With several cores it has a descriptor to sleep on.
fn nowhere(cores: usize) -> Result<Wire> {
    let config = LinkConfig {
        eventfd: cores > 1,
        ..LinkConfig::for_mtu(u16::MAX)
    };
    let (end, _) = try_link(config).context("no descriptor for --wire mem")?;
    Ok(Box::new(end))
}

/// Lets the cores' NICs reach each other, whose hosts have these addresses, and gives what is to know which of these hosts are there; one core's
/// wire stays as it is.
///
/// # Errors
/// Two hosts have an address, or the system has no descriptors to give.
pub fn join(
    wires: Vec<Wire>,
    addresses: impl Iterator<Item = (MacAddr, usize)>,
) -> Result<(Vec<Wire>, Option<Addresses>)> {
    if wires.len() == 1 {
        return Ok((wires, None));
    }
    let addresses = Addresses::new(wires.len(), addresses)
        .context("two hosts have one MAC address; give --host rings: a mac=ADDRESS of its own")?;
    let bridged = bridge(addresses.clone(), wires).context("no descriptors for --cores")?;
    let wires = bridged.into_iter().map(boxed).collect();
    Ok((wires, Some(addresses)))
}

/// Whether frames can pass an interface, if it is there.
fn check_link(name: &str) -> Result<()> {
    match link_state(name) {
        Ok(LinkState::Down) => bail!("{name} is down; run: ip link set {name} up"),
        Ok(LinkState::NoCarrier) => {
            tracing::warn!("{name} has no carrier; connect its cable, or set its peer up");
        }
        // That it is missing is said when it is opened.
        Ok(LinkState::Up) | Err(_) => {}
    }
    Ok(())
}
