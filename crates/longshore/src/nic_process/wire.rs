//! What the NIC is plugged into.

use anyhow::{Result, bail};
use port::impair::{Impair, Impairment, Impairments};
use port::memory::{LinkConfig, link};
use port::packet::{Packet, PacketConfig};
use port::tap::TapConfig;
use port::xdp::Xdp;
use port::{LinkState, Port, link_state};

use super::hosts::Interfaces;
use super::options::{Options, WireOption};
use crate::attach::{capture, impairment};

/// Opens the wire that the command line names.
///
/// # Errors
/// When there is no such interface, or we may not use it; the message says what to do.
pub fn open(options: &Options, interfaces: &mut Interfaces<'_>) -> Result<Box<dyn Port + Send>> {
    let impairment = impairment(&options.line);
    // A super-frame that is lost would take 45 packets with it: an impaired wire carries packets only.
    let clean = impairment == Impairment::default();
    if let WireOption::Packet(name) | WireOption::Xdp(name) = &options.wire {
        check_link(name)?;
    }
    let mut port: Box<dyn Port + Send> = match &options.wire {
        WireOption::Tap(name) => {
            let config = TapConfig {
                tso: clean,
                checksum: clean,
            };
            Box::new(interfaces.open_tap(name, config)?)
        }
        WireOption::Packet(name) => Box::new(Packet::open(name, PacketConfig { tso: clean })?),
        WireOption::Xdp(name) => Box::new(Xdp::open(name)?),
        // Nothing is at the other end: frames for the wire are lost.
        WireOption::Mem => Box::new(link(LinkConfig::for_mtu(u16::MAX)).0),
    };
    if let Some(path) = &options.pcap {
        port = Box::new(capture(port, path)?);
    }
    if !clean {
        let impairments = Impairments::both(impairment);
        port = Box::new(Impair::new(port, impairments, options.line.seed));
    }
    Ok(port)
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
