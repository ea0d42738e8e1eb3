//! The clients: they take no time.

use std::time::Duration;

use tcp::{Connection, Event as TcpEvent, State};
use wire::SeqNum;

use super::{Event, NEVER, PORT, Packet, Pair, PairId, Pico, World};
use crate::handoff::workload::Request;
use crate::handoff::{Config, workload};

/// FreeBSD 4.7 sends a SYN again after three seconds (RFC 1122 §4.2.3.1; our TCP would after one, RFC 6298 §2.1).
const SYN_TIMEOUT: Pico = 3_000_000_000_000;

/// A client, and what it waits for.
#[derive(Debug)]
pub(super) struct Client {
    habit: workload::Client,
    /// Bytes of the response that have come.
    received: u32,
    asked_at: Pico,
    /// When it reads on, if it takes its time.
    reads_at: Pico,
}

/// Bytes of the first of the two segments that a request comes in (derived: the published packets per request are one more than with
/// requests of one segment, for each workload).
const LINE: u32 = 80;

/// Bytes that a client reads at once at least, if it takes its time.
const CHUNK: u32 = 4 << 10;

impl Client {
    /// Bytes of the response that it reads by now, and when it reads more.
    fn reads(&self, request: &Request, now: Pico) -> (u32, Pico) {
        let Some(pace) = request.pace.filter(|_| request.response() > CHUNK) else {
            return (u32::MAX, now);
        };
        let pace = u64::from(pace.max(1));
        let allowed = (now - self.asked_at) / 1_000_000 * pace / 1_000_000;
        let allowed = (allowed as u32).saturating_sub(self.received);
        let next = u64::from(request.response().min(self.received + allowed + CHUNK));
        (
            allowed,
            self.asked_at + (next * 1_000_000 / pace + 1) * 1_000_000,
        )
    }
}

pub(super) fn all(config: &Config) -> Vec<Client> {
    (0..config.workload.clients())
        .map(|index| Client {
            habit: config.workload.client(config.seed, index),
            received: 0,
            asked_at: 0,
            reads_at: 0,
        })
        .collect()
}

impl World {
    pub(super) fn clients_arrive(&mut self) {
        for client in 0..self.clients.len() as u32 {
            self.client_comes_again(client);
        }
    }

    fn client_comes_again(&mut self, client: u32) {
        let wait = self.clients[client as usize].habit.connect();
        self.at(self.now + picos(wait), Event::Connect(client));
    }

    pub(super) fn client_connects(&mut self, client: u32) {
        let now = self.instant();
        self.order += 1;
        let isn = SeqNum((self.order as u32).wrapping_mul(0x9e37_79b1));
        let port = 1024 + (client % 60_000) as u16;
        let far = Connection::connect(now, &self.far_settings, port, PORT, isn);
        let index = self.free_pairs.pop().unwrap_or(self.pairs.len() as u32);
        let known = self.pairs.get(index as usize);
        let generation = known.map_or(0, |pair| pair.generation);
        let pair = Pair {
            generation,
            client,
            far,
            far_timer: NEVER,
            opened: self.now,
            closed: false,
            left: false,
            near: None,
            request: None,
        };
        match self.pairs.get_mut(index as usize) {
            Some(place) => *place = pair,
            None => self.pairs.push(pair),
        }
        self.far_sends(PairId { index, generation });
    }

    pub(super) fn client_receives(&mut self, packet: u32) {
        let Packet {
            pair: id,
            header,
            payload,
            ..
        } = self.packets[packet as usize];
        self.drop_packet(packet);
        let now = self.instant();
        let Some(pair) = self.pair(id) else { return };
        pair.far.handle_segment(now, &header, payload, 1);
        self.client_reads(id);
    }

    /// The client takes what has come, as fast as it likes.
    pub(super) fn client_reads(&mut self, id: PairId) {
        let (time, now) = (self.now, self.instant());
        let Some(pair) = self.pair(id) else { return };
        let (client, left) = (pair.client, pair.left);
        let request = pair.request.filter(|_| !left);
        let unread = pair.far.unread();
        let (allowed, next) = request.map_or((u32::MAX, time), |request| {
            self.clients[client as usize].reads(&request, time)
        });
        let bytes = unread.min(allowed);
        if let Some(pair) = self.pair(id) {
            pair.far.consumed(now, bytes);
        }
        if bytes < unread && self.clients[client as usize].reads_at <= time {
            self.clients[client as usize].reads_at = next;
            self.at(next, Event::Read(id));
        }
        if bytes > 0 && !left {
            self.client_gets(id, client, bytes);
        }
        self.far_events(id);
        self.far_sends(id);
    }

    fn client_gets(&mut self, id: PairId, client: u32, bytes: u32) {
        let Some(request) = self.pair(id).and_then(|pair| pair.request) else {
            return;
        };
        let now = self.now;
        self.measure.received(bytes);
        let state = &mut self.clients[client as usize];
        state.received += bytes;
        if state.received < request.response() {
            return;
        }
        let took = now - state.asked_at;
        self.measure.answered(took);
        let least = picos(request.at_least());
        let next = (now + least.saturating_sub(took)).max(now + picos(request.turnaround));
        self.at(next, Event::Next(id));
    }

    /// After a response, and at the start.
    pub(super) fn client_goes_on(&mut self, id: PairId) {
        let (now, time) = (self.now, self.instant());
        let Some(pair) = self.pair(id) else { return };
        let client = pair.client;
        let state = &mut self.clients[client as usize];
        let request = state.habit.next_request();
        state.received = 0;
        state.asked_at = now;
        state.reads_at = 0;
        let pair = &mut self.pairs[id.index as usize];
        pair.request = request;
        match request {
            Some(request) => {
                // The request's line, then its headers.
                let line = request.request.min(LINE);
                pair.far.queue(time, line);
                self.far_sends(id);
                self.pairs[id.index as usize]
                    .far
                    .queue(time, request.request - line);
            }
            None => {
                pair.far.close(time);
                pair.closed = true;
            }
        }
        self.far_sends(id);
    }

    fn far_events(&mut self, id: PairId) {
        while let Some(event) = self.pair(id).and_then(|pair| pair.far.poll_event()) {
            match event {
                TcpEvent::Connected => self.client_goes_on(id),
                // The server has closed it too.
                TcpEvent::PeerFin if self.pairs[id.index as usize].closed => self.client_leaves(id),
                TcpEvent::Closed(_) => {
                    self.client_leaves(id);
                    self.release_pair(id);
                }
                _ => {}
            }
        }
    }

    /// The client is through with a connection: it opens the next one.
    fn client_leaves(&mut self, id: PairId) {
        let pair = &mut self.pairs[id.index as usize];
        let client = pair.client;
        if !std::mem::replace(&mut pair.left, true) {
            self.client_comes_again(client);
        }
    }

    fn far_sends(&mut self, id: PairId) {
        let now = self.instant();
        while let Some(transmit) = self.pair(id).and_then(|pair| pair.far.poll_transmit(now)) {
            let packet = self.new_packet(Packet {
                pair: id,
                header: transmit.header,
                payload: transmit.payload,
                at: 0,
            });
            self.send_to_nic(packet);
        }
        self.arm_far(id);
    }

    fn arm_far(&mut self, id: PairId) {
        let now = self.now;
        let Some(due) = self.pair(id).and_then(|pair| pair.far.poll_timeout()) else {
            return;
        };
        let mut at = self.pico(due).max(now);
        let Some(pair) = self.pair(id) else { return };
        if pair.far.state() == State::SynSent {
            at = at.max(pair.opened + SYN_TIMEOUT);
        }
        if let Some(pair) = self.pair(id)
            && at < pair.far_timer
        {
            pair.far_timer = at;
            self.at(at, Event::FarTimer(id));
        }
    }

    pub(super) fn far_timer(&mut self, id: PairId) {
        let (now, time) = (self.instant(), self.now);
        let Some(pair) = self.pair(id) else { return };
        pair.far_timer = NEVER;
        let early = pair.far.state() == State::SynSent && time < pair.opened + SYN_TIMEOUT;
        if pair.far.poll_timeout().is_some_and(|due| due <= now) && !early {
            pair.far.handle_timeout(now);
            self.far_events(id);
            self.far_sends(id);
        } else {
            self.arm_far(id);
        }
    }
}

fn picos(duration: Duration) -> Pico {
    duration.as_nanos() as Pico * 1000
}
