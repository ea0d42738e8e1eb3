//! What a socket sends: where its packets go, and what the driver needs for them.

use std::time::Instant;

use tcp::State;
use wire::SeqNum;
use wire::tcp::Flags;

use super::{Membership, Socket};
use crate::device::Device;
use crate::driver::{self, Driver, MessageSource, Stopped, Unsent};
use crate::layer5::Fallback;
use crate::link::{Link, Resolution};
use crate::{SocketId, probing};

impl Socket {
    /// TCP has acknowledged everything before `una`.
    pub fn acknowledged(
        &mut self,
        now: Instant,
        una: SeqNum,
        link: &mut Link,
        driver: &mut Driver,
    ) {
        let upto = self.release_point(una, driver);
        self.release(upto, driver);
        if let Some(hop) = self.route.hop {
            link.neighbours.confirm(hop, now);
        }
    }

    /// Lets go of payload before `upto`.
    pub fn release(&mut self, upto: SeqNum, driver: &mut Driver) {
        for payload in self.send.release(upto) {
            driver.retire(payload);
        }
    }

    /// The segment to send next. `None` when TCP has none, or the next hop's address is not known yet.
    #[inline]
    pub fn next_segment(
        &mut self,
        now: Instant,
        id: SocketId,
        link: &mut Link,
        device: &mut Device,
    ) -> Option<Unsent> {
        if !self.find_next_hop(now, id, link, device) {
            return None;
        }
        let transmit = self.tcp.poll_transmit(now)?;
        let counters = &mut device.counters;
        counters.tcp_out_segs += 1;
        if transmit.retransmit {
            counters.tcp_retrans_segs += 1;
            probing::tcp_retransmit(&self.flow, transmit.header.seq, transmit.payload);
        }
        let is_reset = transmit.header.flags.contains(Flags::RST);
        counters.tcp_out_rsts += u64::from(is_reset);
        Some(Unsent::new(transmit))
    }

    /// Posts a segment, or what is left of it.
    #[inline]
    pub fn post(
        &self,
        unsent: &mut Unsent,
        link: &Link,
        device: &mut Device,
    ) -> Result<(), Stopped> {
        let hop = self.route.hop;
        let Some(next_hop) = hop.and_then(|hop| link.neighbours.mac_now(hop)) else {
            // The neighbour was forgotten while the segment waited: TCP sends it again.
            return Ok(());
        };
        let path = driver::Link {
            flow: self.flow,
            next_hop,
        };
        let messages = self.messages();
        let messages = messages
            .as_ref()
            .map(|messages| messages as &dyn MessageSource);
        let Device {
            driver, counters, ..
        } = device;
        driver.post_segment(path, unsent, &self.send, messages, counters)
    }

    /// Does in software what the NIC was to do of the message around `seq`, once the NIC has read it for the last time.
    pub fn fall_back(
        &mut self,
        now: Instant,
        unsent: &mut Unsent,
        seq: SeqNum,
        device: &mut Device,
    ) -> Fallback {
        // While the rest of this segment waits, nothing more is posted that names the message.
        let posted = *unsent.last_named.get_or_insert(device.driver.posted());
        if device.driver.completed() < posted {
            return Fallback::Later;
        }
        unsent.last_named = None;
        self.transform_in_software(now, seq, device)
    }

    /// Makes sure that the next hop's address is known. If it is not, the socket waits for it.
    #[inline]
    pub fn find_next_hop(
        &mut self,
        now: Instant,
        id: SocketId,
        link: &mut Link,
        device: &mut Device,
    ) -> bool {
        if let Some(hop) = self.route.hop
            && link.neighbours.mac(hop, now).is_some()
        {
            return true;
        }
        let next_hop = link
            .interface
            .next_hop_of(self.flow.dst.0, self.route.next_hop);
        self.route.next_hop = next_hop;
        if self.tcp.state() == State::Closed && link.neighbours.peek(next_hop).is_none() {
            // The reset of a connection that is over is worth no question.
            self.lose_segments(now);
            return false;
        }
        if link.interface.is_withheld(self.flow.src.0) {
            // RFC 4862 §5.4: nothing is sent from there yet.
            if self.membership.enter(Membership::AWAITS_HOP) {
                link.neighbours.wait(next_hop, id);
            }
            return false;
        }
        match link.neighbours.resolve(now, next_hop) {
            Resolution::Known(hop, _) => {
                self.route.hop = Some(hop);
                true
            }
            unknown => {
                if unknown == Resolution::Full {
                    device.counters.neighbour_failed += 1;
                }
                if self.membership.enter(Membership::AWAITS_HOP) {
                    link.neighbours.wait(next_hop, id);
                }
                false
            }
        }
    }

    /// What is to be sent now counts as lost on the way.
    pub fn lose_segments(&mut self, now: Instant) {
        while self.tcp.poll_transmit(now).is_some() {}
    }
}
