//! One connection: the library's socket on one side, the target's bytes on the other, and between them what plays Linux's TCP and the wire.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;

use l5p::nvme::Role;
use l5p::nvme::target::ConnectionId;
use l5p::pdus::Reader;
use rand::{Rng, RngExt};
use rand_pcg::Pcg64Mcg;
use wire::nvme::{Digests, Framing, Pdu, Phase};
use wire::{FlowKey, SeqNum};

use crate::rig::Rig;
use crate::wire_end::to_bytes;
use crate::world::Impairment;

/// A packet on its way to the host: bytes of the target's stream.
#[derive(Clone, Copy, Debug)]
pub struct InFlight {
    pub from: usize,
    pub to: usize,
}

pub struct Connection {
    pub stream: TcpStream,
    pub id: ConnectionId,
    /// From Linux to the target.
    pub flow: FlowKey,
    /// Positions of the first bytes: to the target, and from it.
    pub isn: [SeqNum; 2],
    /// Bytes that the host has sent.
    pub sent: usize,
    reader: Reader<Framing>,
    incoming: Vec<u8>,
    /// What the host is told with ICResp.
    digests: Digests,
    agreed: bool,
    /// All that the target has said, as far as it is not read by the host.
    pub said: Vec<u8>,
    /// Up to where it is on the wire, was received in order, and is in the library's socket.
    pub on_wire: usize,
    pub received: usize,
    pub written: usize,
    /// Something came out of order at some time.
    pub has_reordered: bool,
    /// Beyond `received`.
    early: Vec<(usize, usize)>,
    pub wire: VecDeque<InFlight>,
    pub is_closed: bool,
}

impl Connection {
    pub fn new(stream: TcpStream, id: ConnectionId, flow: FlowKey, isn: [SeqNum; 2]) -> Connection {
        stream.set_nonblocking(true).unwrap();
        stream.set_nodelay(true).unwrap();
        Connection {
            stream,
            id,
            flow,
            isn,
            sent: 0,
            reader: Reader::new(Framing::initializing(Role::Host), SeqNum(0)),
            incoming: Vec::new(),
            digests: Digests::NONE,
            agreed: false,
            said: Vec::new(),
            on_wire: 0,
            received: 0,
            written: 0,
            has_reordered: false,
            early: Vec::new(),
            wire: VecDeque::new(),
            is_closed: false,
        }
    }

    /// What the library has written since.
    pub fn read(&mut self) -> Vec<u8> {
        let mut bytes = vec![0; 60_000];
        match self.stream.read(&mut bytes) {
            Ok(0) => self.is_closed = true,
            Ok(len) => {
                bytes.truncate(len);
                return bytes;
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(_) => self.is_closed = true,
        }
        Vec::new()
    }

    /// Bytes reach the target.
    pub fn arrive(&mut self, bytes: &[u8], rig: &mut Rig) {
        self.incoming.extend(bytes);
        while let Some(len) = self.pdu_len() {
            let pdu: Vec<u8> = self.incoming.drain(..len).collect();
            let received = crate::wire_end::read(&mut self.reader, &pdu);
            let received = received.expect("the host keeps to the rules");
            let sent = rig.send_damaged(self.id, received.pdu, &received.data, received.intact);
            sent.expect("the host keeps to the rules");
        }
    }

    fn pdu_len(&self) -> Option<usize> {
        let len = self.incoming.get(4..8)?;
        let len = u32::from_le_bytes(len.try_into().ok()?) as usize;
        (len <= self.incoming.len()).then_some(len)
    }

    /// Takes what the target says.
    pub fn take_said(&mut self, rig: &mut Rig) {
        while let Some(received) = rig.receive(self.id) {
            let framing = self.framing(Role::Controller);
            self.said
                .extend(to_bytes(&received.pdu, &received.data, &framing));
            if let Pdu::ICResp(response) = received.pdu {
                (self.digests, self.agreed) = (response.digests, true);
                let framing = self.framing(Role::Host);
                self.reader.negotiated(framing);
            }
        }
    }

    fn framing(&self, sender: Role) -> Framing {
        match self.agreed {
            false => Framing::initializing(sender),
            true => Framing {
                sender,
                phase: Phase::Established,
                header_digest: self.digests.header,
                data_digest: self.digests.data,
                alignment: 0,
                max_pdu: 4 << 20,
            },
        }
    }

    /// Puts packets on the wire: new ones, and what is missing when nothing is under way.
    pub fn send(&mut self, random: &mut Pcg64Mcg, impairment: &Impairment) {
        if self.wire.is_empty() && self.received < self.on_wire {
            let to = self.early.first().map_or(self.on_wire, |range| range.0);
            let to = to.min(self.received + random.random_range(1..3000));
            self.wire.push_back(InFlight {
                from: self.received,
                to,
            });
        }
        while self.on_wire < self.said.len() && self.wire.len() < 64 {
            let most = (self.said.len() - self.on_wire).min(1400);
            let len = match random.random_bool(0.8) {
                true => most,
                false => random.random_range(1..=most),
            };
            let packet = InFlight {
                from: self.on_wire,
                to: self.on_wire + len,
            };
            self.on_wire = packet.to;
            for _ in 0..impairment.copies(random) {
                let behind = match random.random_bool(impairment.reorder) {
                    true => random.random_range(0..=self.wire.len().min(8)),
                    false => 0,
                };
                self.wire.insert(self.wire.len() - behind, packet);
            }
        }
    }

    /// Linux has got bytes of the stream: gives them to the library as far as they are in order.
    pub fn receive(&mut self, from: usize, bytes: &[u8]) {
        assert_eq!(bytes, &self.said[from..from + bytes.len()], "at {from}");
        self.early.push((from, from + bytes.len()));
        self.early.sort_unstable();
        for (from, to) in std::mem::take(&mut self.early) {
            match from <= self.received {
                true => self.received = self.received.max(to),
                false => self.early.push((from, to)),
            }
        }
        self.has_reordered |= !self.early.is_empty();
    }

    /// Has the library read what there is, or some of it.
    pub fn deliver(&mut self, random: &mut Pcg64Mcg) {
        let most = self.received - self.written;
        if most == 0 || self.is_closed {
            return;
        }
        let len = match random.next_u32() % 4 {
            0 => random.random_range(1..=most),
            _ => most,
        };
        let bytes = &self.said[self.written..self.written + len];
        match self.stream.write(bytes) {
            Ok(len) => self.written += len,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(_) => self.is_closed = true,
        }
    }
}
