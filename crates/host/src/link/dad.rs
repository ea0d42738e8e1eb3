//! Duplicate address detection (RFC 4862 §5.4), optimistic if wanted (RFC 4429).
//!
//! ```text
//!               probe                       1 s, nobody has it
//!  configured ──────────▶ tentative ─────────────────────────────▶ ours
//!                             │ a neighbour has it, or probes too
//!                             ▼
//!                         not used
//! ```
//! A tentative address is used meanwhile or not, as the settings say. Of several stacks with the same addresses one probes, and all hear the answers.

use std::net::Ipv6Addr;
use std::time::{Duration, Instant};

use wire::ethernet::MacAddr;
use wire::icmp::ndp::Message;
use wire::ipv6;

use super::{Link, LinkEvent};
use crate::Dad;
use crate::device::Device;

/// How long an answer to the one probe is waited for (RetransTimer, RFC 4861 §10; DupAddrDetectTransmits, RFC 4862 §5.1).
const RETRANS_TIMER: Duration = Duration::from_secs(1);

/// The addresses that may be another host's.
#[derive(Debug)]
pub(super) struct Detection {
    tentative: Vec<Ipv6Addr>,
    /// When they are probed; once they are, when they are this host's, unless another host answers before.
    at: Instant,
    is_probed: bool,
}

impl Detection {
    pub fn new(now: Instant, dad: Dad, addresses: impl Iterator<Item = Ipv6Addr>) -> Self {
        Self {
            tentative: match dad {
                Dad::Off => Vec::new(),
                Dad::Optimistic | Dad::Wait => addresses.collect(),
            },
            at: now,
            is_probed: false,
        }
    }

    /// It is not known yet whether another host has the address.
    pub fn is_tentative(&self, address: Ipv6Addr) -> bool {
        self.tentative.contains(&address)
    }

    pub fn poll_timeout(&self) -> Option<Instant> {
        (!self.tentative.is_empty()).then_some(self.at)
    }
}

impl Link {
    /// Probes the addresses, and takes them for ours when their time is over. Answers whether that was anything.
    pub(super) fn detect_duplicates(&mut self, now: Instant, device: &mut Device) -> bool {
        if self.detection.poll_timeout().is_none_or(|at| at > now) {
            return false;
        }
        if !std::mem::replace(&mut self.detection.is_probed, true) {
            self.detection.at = now + RETRANS_TIMER;
            if self.answers {
                for target in self.detection.tentative.clone() {
                    self.probe_address(target, device);
                }
            }
            return true;
        }
        self.detection.tentative.clear();
        self.interface.assign();
        self.listening.tell_again(now);
        self.neighbours.ask_again(now);
        let waiting = self.neighbours.take_all_waiting();
        let known = waiting.into_iter().map(|(_, id)| LinkEvent::HopKnown(id));
        self.events.extend(known);
        self.events.push_back(LinkEvent::AddressesChanged);
        true
    }

    /// Takes a message of `mac` that may show that a tentative address is another host's (RFC 4862 §5.4.3, §5.4.4). Answers whether it does.
    pub(super) fn take_duplicate(
        &mut self,
        now: Instant,
        src: Ipv6Addr,
        message: &Message,
        mac: Option<MacAddr>,
        device: &mut Device,
    ) -> bool {
        let target = match *message {
            Message::NeighborSolicitation { target, .. } if src.is_unspecified() => target,
            Message::NeighborAdvertisement { target, .. } => target,
            _ => return false,
        };
        // Our own probe may come back.
        let Some(mac) = mac.filter(|mac| *mac != self.interface.mac) else {
            return false;
        };
        if !self.detection.is_tentative(target) {
            return false;
        }
        self.detection
            .tentative
            .retain(|address| *address != target);
        self.interface.remove(target.into());
        self.sync_groups(now);
        device.counters.neighbour_duplicates += 1;
        if self.answers {
            tracing::warn!("{target} is not used: {mac} on the link has it; give another --ip");
        }
        self.events.push_back(LinkEvent::Duplicate(target));
        self.events.push_back(LinkEvent::AddressesChanged);
        true
    }

    /// Asks whether anybody has the address.
    fn probe_address(&self, target: Ipv6Addr, device: &mut Device) {
        let message = Message::NeighborSolicitation {
            target,
            source_mac: None,
        };
        let to = ipv6::solicited_node(target);
        self.send_discovery(Ipv6Addr::UNSPECIFIED, to, None, message, device);
    }
}
