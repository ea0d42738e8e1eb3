//! Frames that leave the NIC: whose they are, and what is noted of them.

use std::net::IpAddr;

use testkit::network;
use wire::arp;
use wire::packet::{self, Class, Parsed};
use wire::tcp::Flags;

use super::super::peer::{Bytes, Peer};
use super::{App, Broken, HOST, Owner, World, peer_ip};

impl<A: App> World<A> {
    /// A frame leaves, if no rule is broken.
    pub(super) fn leave(&mut self, frame: &[u8], owner: Owner) {
        let is_between = self.app.is_between(&self.stack);
        self.sent(frame, owner);
        match self.broken {
            Some(Broken::BothAnswer) if is_between => {
                self.broken = None;
                self.sent(frame, owner);
            }
            Some(Broken::SendsOn) if owner == Owner::Nic => {
                self.kept_back = Some(frame.to_vec());
            }
            Some(Broken::SendsOn) if self.kept_back.is_some() => {
                self.broken = None;
                let late = self.kept_back.take().unwrap_or_default();
                self.sent(&late, Owner::Nic);
            }
            _ => {}
        }
    }

    /// A frame is on the wire.
    fn sent(&mut self, frame: &[u8], owner: Owner) {
        match packet::classify(frame) {
            Class::Arp { offset } => self.answer_arp(&frame[offset..]),
            Class::Tcp(parsed) => {
                assert!(parsed.verify_checksums(frame), "checksums are right");
                let to = usize::from(parsed.flow.dst.0 == peer_ip(1));
                self.note(&format!("{owner:?} > {to}"), Some(frame));
                // What comes late and is of a connection that is over is answered so.
                let is_over = self.peers[to].as_ref().is_some_and(Peer::is_over);
                assert!(
                    self.may_reset
                        || is_over && self.is_disturbed
                        || !parsed.tcp.flags.contains(Flags::RST),
                    "a reset:\n{}",
                    self.story()
                );
                self.note_owner(to, owner, &parsed);
                self.note_repeated(to, &parsed);
                self.note_answer(to, &parsed);
                if to == 1 && self.peers[1].is_none() {
                    let streams = [Bytes::Counted(2), Bytes::Counted(1)];
                    let peer = Peer::accepting(
                        self.now,
                        sim::World::mac(1),
                        &parsed,
                        streams,
                        self.plans[1],
                    );
                    self.peers[1] = Some(peer);
                    self.let_send(1);
                } else {
                    self.wires[to].to_peer.push_back(frame.to_vec());
                }
            }
            // Duplicate address detection and the like.
            _ => {}
        }
    }

    /// Counts what was sent to a peer before.
    fn note_repeated(&mut self, to: usize, parsed: &Parsed) {
        let tcp = &parsed.tcp;
        let len = tcp.sequence_len(parsed.payload_len);
        let end = tcp.seq + len;
        let before = self.wires[to].sent;
        let is_new = before.is_none_or(|before| end.after(before));
        self.repeated += u32::from(len > 0 && !is_new);
        self.wires[to].sent = Some(before.map_or(end, |before| before.max(end)));
    }

    /// Counts what only acknowledges, and nothing new.
    fn note_answer(&mut self, to: usize, parsed: &Parsed) {
        let tcp = &parsed.tcp;
        let only_acks = tcp.sequence_len(parsed.payload_len) == 0;
        let answer = (tcp.ack, tcp.window, self.wires[to].taken);
        let again = only_acks && self.wires[to].answered == Some(answer);
        self.answered_twice += u32::from(again);
        self.wires[to].answered = only_acks.then_some(answer);
    }

    fn note_owner(&mut self, to: usize, owner: Owner, parsed: &Parsed) {
        let tcp = &parsed.tcp;
        let end = tcp.seq + tcp.sequence_len(parsed.payload_len);
        let before = self.wires[to].forwarded;
        if owner == Owner::Nic {
            self.wires[to].forwarded = Some(before.map_or(end, |before| before.max(end)));
        }
        let owners = &mut self.wires[to].owners;
        // What the NIC has forwarded before it gave the connection back may leave after the host's first packet. There is
        // nothing new in it.
        let is_late = !self.is_strict
            && owners.ends_with(&[Owner::Nic, Owner::Host])
            && owner == Owner::Nic
            && before.is_some_and(|before| end.at_or_before(before));
        if owners.last() != Some(&owner) && !is_late {
            owners.push(owner);
        }
    }

    fn answer_arp(&mut self, bytes: &[u8]) {
        let Ok(question) = arp::Packet::parse(bytes) else {
            return;
        };
        let target = IpAddr::V4(question.target_ip);
        let Some(peer) = (0..2).find(|peer| peer_ip(*peer) == target) else {
            return;
        };
        let answer = arp::Packet {
            operation: arp::Operation::Reply,
            sender_mac: sim::World::mac(peer),
            sender_ip: question.target_ip,
            target_mac: sim::World::mac(HOST),
            target_ip: question.sender_ip,
        };
        let frame = network::arp(answer.target_mac, &answer);
        self.wires[peer].to_nic.push_back(frame);
    }
}
