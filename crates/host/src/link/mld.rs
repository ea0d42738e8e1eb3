//! Multicast listener discovery (RFC 3810, RFC 9777): those who forward multicast on the link are told of this host's groups.
//!
//! A host hears who asks for its addresses at a group of each (RFC 4861 §7.2.1). A switch that forwards groups only to where somebody takes part in them would cut
//! it off. So it says so when it joins one and when it leaves, twice each, and when a querier asks. A link-local address that is tentative speaks for nothing:
//! reports are from the unspecified one until then, and are sent once more after that (RFC 3590).
//!
//! A querier of version 1 is answered in its version; reports of other hosts suppress none of its own, for groups of this kind have one member mostly.

use std::hash::BuildHasher;
use std::net::{IpAddr, Ipv6Addr};
use std::time::{Duration, Instant};

use wire::ethernet::{EtherType, MacAddr};
use wire::icmp::mld::{ALL_ROUTERS, HOP_LIMIT, Query, Record, RecordKind};
use wire::icmp::v6::Message;
use wire::ipv4::protocol;
use wire::ipv6;

use super::Link;
use crate::device::Device;
use crate::keyed::Keyed;

/// How often a change is told (Robustness Variable, RFC 3810 §9.1).
const ROBUSTNESS: u8 = 2;
/// The longest time between two of these (Unsolicited Report Interval, §9.11).
const REPEAT_WITHIN: Duration = Duration::from_secs(1);
/// How long a querier of version 1 counts (Older Version Querier Present Timeout, §9.12, with the default intervals).
const OLD_QUERIER: Duration = Duration::from_secs(260);
/// Records of one report at most: it fits any link.
const MOST_RECORDS: usize = 60;
/// Where what version 1 tells of groups that are left goes (RFC 2710 §3.7).
const OLD_ROUTERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 2);

/// The groups of this host, and what is to be told of them.
#[derive(Debug)]
pub(super) struct Listening {
    is_on: bool,
    groups: Vec<Group>,
    /// When the next report of changes is due.
    change_at: Option<Instant>,
    /// When an answer about all groups is due.
    answer_at: Option<Instant>,
    /// A querier of version 1 counts until then.
    old_until: Option<Instant>,
    random: Keyed,
    drawn: u64,
}

#[derive(Debug)]
struct Group {
    address: Ipv6Addr,
    is_left: bool,
    /// How often its last change is to be told yet.
    changes: u8,
    /// When an answer about it alone is due.
    answer_at: Option<Instant>,
}

impl Listening {
    pub fn new(is_on: bool, secret: &[u8; 16]) -> Self {
        Self {
            is_on,
            groups: Vec::new(),
            change_at: None,
            answer_at: None,
            old_until: None,
            random: Keyed::new(secret, 0x6d6c_6473),
            drawn: 0,
        }
    }

    /// When there is something to tell.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let groups = self.groups.iter().filter_map(|group| group.answer_at);
        let others = [self.change_at, self.answer_at].into_iter().flatten();
        groups.chain(others).min()
    }

    /// The host takes part in these groups, and in no other ones.
    fn take_part(&mut self, now: Instant, groups: impl Iterator<Item = Ipv6Addr>) {
        if !self.is_on {
            return;
        }
        let groups: Vec<Ipv6Addr> = groups.collect();
        let mut has_changed = false;
        for group in &mut self.groups {
            let is_left = !groups.contains(&group.address);
            if group.is_left != is_left {
                has_changed = true;
                group.is_left = is_left;
                group.changes = ROBUSTNESS;
            }
        }
        for address in groups {
            if self.groups.iter().all(|group| group.address != address) {
                has_changed = true;
                self.groups.push(Group {
                    address,
                    is_left: false,
                    changes: ROBUSTNESS,
                    answer_at: None,
                });
            }
        }
        if has_changed {
            self.change_at = Some(now);
        }
    }

    /// All groups are told of once more: what was told was from no address.
    pub fn tell_again(&mut self, now: Instant) {
        for group in self.groups.iter_mut().filter(|group| !group.is_left) {
            group.changes = ROBUSTNESS;
            self.change_at = Some(now);
        }
    }

    /// A querier asks (RFC 3810 §6.2, §8.2.1).
    fn asked(&mut self, now: Instant, query: &Query) {
        if query.is_old {
            if !self.is_old(now) {
                // What was to be told is of the other version.
                (self.change_at, self.answer_at) = (None, None);
                self.groups.retain(|group| !group.is_left);
                for group in &mut self.groups {
                    (group.changes, group.answer_at) = (0, None);
                }
            }
            self.old_until = Some(now + OLD_QUERIER);
        }
        let at = now + self.delay(Duration::from_millis(query.max_response.into()));
        if self.answer_at.is_some_and(|answer_at| answer_at <= at) {
            return;
        }
        if query.group.is_unspecified() {
            self.answer_at = (!self.groups.is_empty()).then_some(at);
            return;
        }
        let mut groups = self.groups.iter_mut();
        let group = groups.find(|group| group.address == query.group && !group.is_left);
        if let Some(group) = group {
            // Of whatever senders it asks: packets of all of them are taken.
            group.answer_at = Some(group.answer_at.map_or(at, |before| before.min(at)));
        }
    }

    /// A querier of version 1 was heard not long ago.
    fn is_old(&self, now: Instant) -> bool {
        self.old_until.is_some_and(|until| now < until)
    }

    /// What is due now.
    fn take_due(&mut self, now: Instant) -> Vec<Record> {
        let is_due = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        let mut due = Vec::new();
        let answers_all = is_due(self.answer_at);
        if answers_all {
            self.answer_at = None;
        }
        for group in &mut self.groups {
            if answers_all || is_due(group.answer_at) {
                group.answer_at = None;
                if !group.is_left {
                    due.push(Record {
                        kind: RecordKind::TakesPart,
                        group: group.address,
                    });
                }
            }
        }
        if !is_due(self.change_at) {
            return due;
        }
        for group in self.groups.iter_mut().filter(|group| group.changes > 0) {
            group.changes -= 1;
            due.push(Record {
                kind: match group.is_left {
                    true => RecordKind::Leaves,
                    false => RecordKind::Joins,
                },
                group: group.address,
            });
        }
        self.groups
            .retain(|group| !group.is_left || group.changes > 0);
        let goes_on = self.groups.iter().any(|group| group.changes > 0);
        self.change_at = goes_on.then(|| now + self.delay(REPEAT_WITHIN));
        due
    }

    /// A random time of at most so long.
    fn delay(&mut self, most: Duration) -> Duration {
        self.drawn += 1;
        let most = most.as_micros() as u64;
        Duration::from_micros(self.random.hash_one(self.drawn) % (most + 1))
    }
}

impl Link {
    /// The host hears at the groups of its addresses.
    pub(super) fn sync_groups(&mut self, now: Instant) {
        let groups = self.interface.own_v6().map(ipv6::solicited_node);
        self.listening.take_part(now, groups);
    }

    /// Takes a query, in this frame of the link.
    pub(super) fn handle_listener_query(&mut self, now: Instant, packet: &[u8], query: &Query) {
        if ipv6::has_router_alert(packet) {
            self.listening.asked(now, query);
        }
    }

    /// Tells of groups what is due. Answers whether that was anything.
    pub(super) fn report_groups(&mut self, now: Instant, device: &mut Device) -> bool {
        if self.listening.poll_timeout().is_none_or(|at| at > now) {
            return false;
        }
        let due = self.listening.take_due(now);
        if !self.listening.is_old(now) {
            for records in due.chunks(MOST_RECORDS) {
                self.send_listener(ALL_ROUTERS, &Message::ListenerReport(records), device);
            }
            return true;
        }
        for Record { kind, group } in due {
            let (to, message) = match kind {
                RecordKind::Leaves => (OLD_ROUTERS, Message::OldListenerDone(group)),
                RecordKind::TakesPart | RecordKind::Joins => {
                    (group, Message::OldListenerReport(group))
                }
            };
            self.send_listener(to, &message, device);
        }
        true
    }

    fn send_listener(&self, dst: Ipv6Addr, message: &Message<'_>, device: &mut Device) {
        let Some(mac) = MacAddr::of_group(dst.into()) else {
            return;
        };
        let src = self.link_local();
        let len = ipv6::ROUTER_ALERT_LEN + message.len();
        let ip = ipv6::Header {
            src,
            dst,
            next_header: ipv6::HOP_BY_HOP,
            hop_limit: HOP_LIMIT,
            traffic_class: 0,
            flow_label: 0,
            payload_len: len as u16,
        };
        self.send_icmp(mac, EtherType::IPV6, len, device, |buffer| {
            let mut at = ip.emit(buffer);
            at += ipv6::emit_router_alert(protocol::ICMPV6, &mut buffer[at..]);
            at + message.emit(src, dst, &mut buffer[at..])
        });
    }

    /// The host's link-local address; the unspecified one while none is known to be its own (RFC 3590 §4).
    fn link_local(&self) -> Ipv6Addr {
        let own = self
            .interface
            .addresses()
            .find_map(|address| match address {
                IpAddr::V6(v6) if v6.is_unicast_link_local() => Some(v6),
                _ => None,
            });
        own.filter(|own| !self.detection.is_tentative(*own))
            .unwrap_or(Ipv6Addr::UNSPECIFIED)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00, 1);
    const SECOND: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00, 2);

    /// All that is told from now on, unasked.
    fn told(listening: &mut Listening) -> Vec<(RecordKind, Ipv6Addr)> {
        let mut told = Vec::new();
        while let Some(at) = listening.poll_timeout() {
            let due = listening.take_due(at);
            told.extend(due.into_iter().map(|record| (record.kind, record.group)));
        }
        told
    }

    /// RFC 3810 §6.1.
    #[test]
    fn what_changes_is_told_twice_and_the_last_change_counts() {
        let (mut listening, now) = (Listening::new(true, &[7; 16]), Instant::now());
        listening.take_part(now, [FIRST].into_iter());
        assert_eq!(told(&mut listening), [(RecordKind::Joins, FIRST); 2]);
        listening.take_part(now, [FIRST].into_iter());
        assert_eq!(told(&mut listening), []);
        listening.take_part(now, [SECOND].into_iter());
        let changes = [(RecordKind::Leaves, FIRST), (RecordKind::Joins, SECOND)];
        assert_eq!(told(&mut listening), [changes, changes].concat());
        listening.take_part(now, [].into_iter());
        listening.take_due(now);
        listening.take_part(now, [SECOND].into_iter());
        assert_eq!(told(&mut listening), [(RecordKind::Joins, SECOND); 2]);
        assert_eq!(listening.groups.len(), 1);
    }

    #[test]
    fn one_that_is_off_says_nothing_and_answers_nothing() {
        let (mut listening, now) = (Listening::new(false, &[7; 16]), Instant::now());
        listening.take_part(now, [FIRST].into_iter());
        let query = Query {
            group: Ipv6Addr::UNSPECIFIED,
            max_response: 1000,
            is_old: false,
        };
        listening.asked(now, &query);
        assert_eq!(listening.poll_timeout(), None);
    }
}
