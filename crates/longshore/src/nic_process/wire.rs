//! What the NIC is plugged into.

use anyhow::Result;
use port::Port;
use port::impair::{Impair, Impairment, Impairments};
use port::memory::{LinkConfig, link};
use port::packet::{Packet, PacketConfig};
use port::tap::TapConfig;
use port::xdp::Xdp;

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
        // With nobody at the other end: what is for the wire is lost there.
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
