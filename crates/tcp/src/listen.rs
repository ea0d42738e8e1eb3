//! Passive opens.

use std::time::Instant;

use wire::tcp::{Flags, Header, Timestamps};
use wire::{Ecn, FlowKey, SeqNum};

use crate::cookie::{LIFETIME, SynCookies};
use crate::isn::{Generator, hash_flow};
use crate::options::Negotiated;
use crate::{Config, Connection, Initial, reset_for};

/// When a listener answers SYNs with cookies (RFC 4987 §3.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cookies {
    /// Never: SYNs beyond the backlog are dropped.
    Never,
    /// When the backlog of half-open connections is full.
    OnOverflow,
    /// For every SYN: no state before the handshake is complete.
    Always,
}

/// Settings of a listener.
#[derive(Clone, Debug)]
pub struct ListenConfig {
    /// Settings of its connections.
    pub connection: Config,
    /// Half-open connections that it keeps, and also established ones that wait to be accepted.
    pub backlog: u32,
    /// When to answer with cookies.
    pub cookies: Cookies,
}

impl Default for ListenConfig {
    fn default() -> Self {
        Self {
            connection: Config::default(),
            backlog: 4096,
            cookies: Cookies::OnOverflow,
        }
    }
}

/// What to do about a SYN.
#[derive(Debug)]
#[allow(clippy::large_enum_variant)]
pub enum SynAction {
    /// Keep this connection, in SYN-RECEIVED; its SYN-ACK comes from `poll_transmit`.
    Accept(Connection),
    /// Send this header (a SYN-ACK with a cookie, or a RST) and keep nothing.
    Reply(Header),
    /// Do nothing.
    Drop,
}

/// What to do about an ACK that belongs to no connection.
#[derive(Debug)]
#[allow(clippy::large_enum_variant)]
pub enum AckAction {
    /// Keep this connection, established; the same segment is then to be given to it (it may carry data).
    Open(Connection),
    /// Answer with [`reset_for`].
    Refuse,
    /// Do nothing: the peer's handshake is good, but too many connections wait to be accepted. It sends again, and by then
    /// there may be room (RFC 9293 §3.10.7.1 would have it reset, and its data lost, though it did as it was told).
    Drop,
}

/// A listening port (LISTEN). It counts the connections it has made; their owner tells what becomes of them.
#[derive(Clone, Debug)]
pub struct Listener {
    config: ListenConfig,
    isns: Generator,
    syn_cookies: SynCookies,
    /// Of the flows' hashes.
    key: [u8; 16],
    half_open: u32,
    waiting: u32,
    last_cookie: Option<Instant>,
}

impl Listener {
    /// A listener with a secret key for its cookies, and the host's initial sequence numbers.
    pub fn new(now: Instant, config: ListenConfig, key: [u8; 16], isns: Generator) -> Self {
        Self {
            config,
            isns,
            syn_cookies: SynCookies::new(now, key),
            key,
            half_open: 0,
            waiting: 0,
            last_cookie: None,
        }
    }

    /// Another listener with this one's key and clock, in whose place it is, may have given cookies until now.
    pub fn expect_cookies(&mut self, now: Instant) {
        self.last_cookie = Some(now);
    }

    /// Takes a segment with SYN that belongs to no connection (RFC 9293 §3.10.7.2). `flow` is the segment's: from the
    /// peer to us.
    pub fn handle_syn(&mut self, now: Instant, flow: &FlowKey, syn: &Header) -> SynAction {
        if syn.flags.contains(Flags::RST) || !syn.flags.intersects(Flags::SYN | Flags::ACK) {
            return SynAction::Drop;
        }
        if syn.flags.contains(Flags::ACK) {
            return reset_for(syn, 0).map_or(SynAction::Drop, SynAction::Reply);
        }
        if self.waiting >= self.config.backlog {
            return SynAction::Drop;
        }
        let overflow = self.half_open >= self.config.backlog;
        match self.config.cookies {
            Cookies::Always => self.bake(now, flow, syn),
            Cookies::OnOverflow if overflow => self.bake(now, flow, syn),
            Cookies::Never if overflow => SynAction::Drop,
            Cookies::OnOverflow | Cookies::Never => {
                let initial = self.isns.initial(now, &flow.reversed());
                self.accept(now, syn, initial)
            }
        }
    }

    /// Takes the SYN that ends the TIME-WAIT of a connection which has sent what lies before `used` ([`Verdict::Reopen`](crate::Verdict)).
    /// The new one begins above that (RFC 9293 §3.6.1, MAY-2), as no cookie would: it is kept although the backlog of half-open
    /// connections is full.
    pub fn handle_reopening(
        &mut self,
        now: Instant,
        flow: &FlowKey,
        syn: &Header,
        used: SeqNum,
    ) -> SynAction {
        if self.waiting >= self.config.backlog {
            return SynAction::Drop;
        }
        let initial = self.isns.initial(now, &flow.reversed());
        self.accept(now, syn, initial.above(used))
    }

    fn accept(&mut self, now: Instant, syn: &Header, initial: Initial) -> SynAction {
        self.half_open += 1;
        let config = &self.config.connection;
        SynAction::Accept(Connection::accept(now, config, syn, initial))
    }

    /// Takes a segment with ACK and without SYN and RST that belongs to no connection: if it carries one of our cookies
    /// it opens a connection, which counts as waiting to be accepted. `has_room`: the owner can keep another one.
    pub fn handle_ack(
        &mut self,
        now: Instant,
        flow: &FlowKey,
        ack: &Header,
        has_room: bool,
    ) -> AckAction {
        let plain =
            ack.flags.contains(Flags::ACK) && !ack.flags.intersects(Flags::SYN | Flags::RST);
        // Cookies are looked for only while some may be about: guessing has to be quick.
        let expected = self
            .last_cookie
            .is_some_and(|last| now.saturating_duration_since(last) <= LIFETIME);
        if !plain || !expected {
            return AckAction::Refuse;
        }
        self.syn_cookies.advance(now);
        let timestamp = self.isns.timestamp(now, &flow.reversed());
        let hash = hash_flow(&self.key, flow, 0);
        let Some(cookie) = self.syn_cookies.open(hash, timestamp, ack) else {
            return AckAction::Refuse;
        };
        if !has_room || self.waiting >= self.config.backlog {
            return AckAction::Drop;
        }
        self.waiting += 1;
        AckAction::Open(Connection::from_cookie(
            now,
            &self.config.connection,
            ack,
            &cookie,
            timestamp,
        ))
    }

    /// Settings of the connections.
    pub fn connection(&self) -> &Config {
        &self.config.connection
    }

    /// A connection that the NIC has set up waits to be accepted.
    pub fn admitted(&mut self) {
        self.waiting += 1;
    }

    /// A connection from [`SynAction::Accept`] became established: it now waits to be accepted.
    pub fn established(&mut self) {
        self.half_open = self.half_open.saturating_sub(1);
        self.waiting += 1;
    }

    /// A connection from [`SynAction::Accept`] ended before it was established.
    pub fn failed(&mut self) {
        self.half_open = self.half_open.saturating_sub(1);
    }

    /// An established connection was accepted by the application, or ended before that.
    pub fn accepted(&mut self) {
        self.waiting = self.waiting.saturating_sub(1);
    }

    fn bake(&mut self, now: Instant, flow: &FlowKey, syn: &Header) -> SynAction {
        self.last_cookie = Some(now);
        self.syn_cookies.advance(now);
        let config = &self.config.connection;
        let mut offer = Negotiated::offer(config);
        offer.settle(&syn.options);
        // Without timestamps there is nowhere to keep the other options.
        if !offer.timestamps {
            offer.window_scale = false;
            offer.sack = false;
        }
        let mut kept = syn.options;
        if !offer.window_scale {
            kept.window_scale = None;
        }
        kept.sack_permitted = offer.sack;
        let clock = self.isns.timestamp(now, &flow.reversed());
        let timestamps = Timestamps {
            val: self.syn_cookies.timestamp(clock, &kept),
            echo: syn
                .options
                .timestamps
                .map_or(0, |timestamps| timestamps.val),
        };
        SynAction::Reply(Header {
            src_port: syn.dst_port,
            dst_port: syn.src_port,
            seq: self
                .syn_cookies
                .sequence(hash_flow(&self.key, flow, 0), syn),
            ack: syn.seq + 1,
            flags: Flags::SYN | Flags::ACK,
            window: config.syn_window(),
            options: offer.syn_options(config.mss, timestamps),
            ecn: Ecn::NotEct,
        })
    }
}
