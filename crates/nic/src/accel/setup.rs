//! Connection setup: SYNs answered with cookies, and the connections of which one comes back handed up (AccelTCP, "Connection
//! Setup Offload"; RFC 9293 §3.10.7.2, RFC 7323, RFC 4987 §3.6).
//!
//! ```text
//! SYN ─▶ rule? ─▶ fit for a cookie? ─▶ credit? ─▶ budget? ─▶ SYN-ACK ─▶ egress
//!          │no        │no                │no         │no
//!          ▼          ▼                  ▼           ▼
//!         host       host              dropped      host
//!
//! ACK ─▶ filter? ─▶ rule? ─▶ cookie? ─▶ deferred? ─▶ Established + packet ─▶ host
//!          │no        │no       │no         │yes: kept back
//!          └──────────┴─────────┴─▶ host, as any other packet
//! ```
//!
//! A SYN of a connection that the host has gets the host's challenge ACK (RFC 5961 §4.2), as far as the device knows of the
//! connection: by its receive context. Where it does not, the peer gets a SYN-ACK: one that has the connection still answers it with
//! an ACK, of which the host takes no more notice than of any, and one that has forgotten it brings the cookie, and the
//! host sees that this is another incarnation.
//!
//! Nothing is kept of a half-open connection. A cookie serves only SYNs with timestamps, which hold the options; others go to
//! the host (AccelTCP). A bad cookie goes up as it came: the host, which has no such connection, answers with RST.
//!
//! Cost targets: 800 cycles for a SYN answered, 500 for a cookie checked, from the frame on; a segment of an established
//! connection pays the filter: a multiplication and a comparison.

use std::time::Instant;

use probes::DropReason;
use siphasher::sip::SipHasher24;
use tcp::cookie::SynCookies;
use wire::ethernet::{self, MacAddr};
use wire::tcp::{Flags, Header, Options, SackBlocks, Timestamps};

use super::budget::Budget;
use super::listener::{Listeners, Rule};
use super::packet::{self, Addresses, PayloadSize};
use super::{AccelEnv, Handled};
use crate::config::AccelConfig;
use crate::frame::Segment;
use crate::probing::drop_packet;
use crate::ring::ErrorCode;
use crate::ring::accel::{Established, InstallListener};
use crate::switch::FunctionId;

/// Setup for all functions.
#[derive(Debug)]
pub(super) struct Setup {
    pub(super) listeners: Listeners,
    /// Since the first rule was installed.
    oven: Option<Oven>,
    budget: Budget,
}

/// What cookies are made with.
struct Oven {
    syn_cookies: SynCookies,
    origin: Instant,
    /// What was asked for last, and milliseconds since the origin then: most frames come in batches of one moment.
    last: (Instant, u32),
}

impl Setup {
    pub(super) fn new(config: &AccelConfig) -> Setup {
        Setup {
            listeners: Listeners::new(config.listeners),
            oven: None,
            budget: Budget::new(config.setups_per_second),
        }
    }

    /// Adds a rule.
    ///
    /// # Errors
    /// See [`Listeners::install`].
    pub(super) fn install(
        &mut self,
        env: &mut AccelEnv<'_>,
        install: &InstallListener,
    ) -> Result<(), ErrorCode> {
        self.listeners.install(env.function.id, install)?;
        let (epoch, secret) = (env.nic.epoch.unwrap_or(env.now), &env.nic.secret);
        self.oven.get_or_insert_with(|| Oven::new(epoch, secret));
        env.function.counters.accel_listeners += 1;
        Ok(())
    }

    /// Looks at a segment of a flow that the device does not own.
    #[inline]
    pub(super) fn handle_segment(
        &mut self,
        env: &mut AccelEnv<'_>,
        segment: &Segment<'_>,
    ) -> Handled {
        let Some(oven) = &mut self.oven else {
            return Handled::Pass(None);
        };
        let header = &segment.parsed.tcp;
        let is_syn = header.flags.contains(Flags::SYN);
        if is_syn && header.flags.intersects(Flags::ACK | Flags::RST)
            || !is_syn && !brings_cookie(&oven.syn_cookies, header)
        {
            return Handled::Pass(None);
        }
        let (address, port) = segment.parsed.flow.dst;
        let Some(rule) = self.listeners.find(env.function.id, address, port) else {
            return Handled::Pass(None);
        };
        oven.advance(env.now);
        if is_syn {
            oven.take_syn(env, rule, &mut self.budget, segment)
        } else {
            oven.take_cookie(env, rule, segment)
        }
    }
}

impl Oven {
    fn new(now: Instant, secret: &[u8; 16]) -> Oven {
        // These must differ from the flow hash's key, and from each other.
        let hasher = SipHasher24::new_with_key(secret);
        let mut key = [0; 16];
        key[..8].copy_from_slice(&hasher.hash(b"cookie 0").to_le_bytes());
        key[8..].copy_from_slice(&hasher.hash(b"cookie 1").to_le_bytes());
        Oven {
            syn_cookies: SynCookies::filtered(now, key),
            origin: now,
            last: (now, 0),
        }
    }

    fn advance(&mut self, now: Instant) {
        if now != self.last.0 {
            self.syn_cookies.advance(now);
            let since = now.saturating_duration_since(self.origin);
            let milliseconds = since.as_secs() * 1000 + u64::from(since.subsec_millis());
            self.last = (now, milliseconds as u32);
        }
    }

    /// Answers a SYN, or leaves it to the host.
    fn take_syn(
        &self,
        env: &mut AccelEnv<'_>,
        rule: &Rule,
        budget: &mut Budget,
        segment: &Segment<'_>,
    ) -> Handled {
        let counters = &mut env.function.counters;
        counters.accel_syns += 1;
        let hop = source(segment.frame);
        let (Some(timestamps), true) = (
            segment.parsed.tcp.options.timestamps,
            is_served(segment) && hop.is_unicast() && hop != env.function.config.mac,
        ) else {
            counters.accel_syns_to_host += 1;
            return Handled::Pass(None);
        };
        if rule.credits <= 0 {
            drop_packet(counters, env.function.id, DropReason::AccelSynsBacklog);
            return Handled::Taken;
        }
        if !budget.spend(env.now) {
            counters.accel_syns_over_budget += 1;
            return Handled::Pass(None);
        }
        let flow = flow_of(env.function.id, segment);
        let answer = self.answer(rule, segment, flow, timestamps.val);
        let addresses = Addresses {
            source: env.function.config.mac,
            hop,
            flow: &segment.parsed.flow.reversed(),
            hop_limit: rule.options.hop_limit,
        };
        const EMPTY: PayloadSize = PayloadSize {
            bytes: 0,
            gso_size: 0,
        };
        let nic = env.nic;
        let room = packet::room_for(0);
        let sent = env.egress.push(env.function, room, |out| {
            packet::write(out, nic, &addresses, &answer, EMPTY, |_| Some(()))
        });
        env.function.counters.accel_syn_acks += u64::from(sent);
        Handled::Taken
    }

    /// The SYN-ACK: our offer, as far as the peer's SYN has it too.
    fn answer(&self, rule: &Rule, segment: &Segment<'_>, flow: u64, echo: u32) -> Header {
        let (syn, offer) = (&segment.parsed.tcp, &rule.options);
        let scales = offer.window_scale.is_some() && syn.options.window_scale.is_some();
        let sack = offer.sack && syn.options.sack_permitted;
        let kept = Options {
            window_scale: syn.options.window_scale.filter(|_| scales),
            sack_permitted: sack,
            ..Options::default()
        };
        // TSvals of a connection are milliseconds since an origin of its own (RFC 7323 §5.4).
        let (seq, beginning) = self.syn_cookies.bake(flow, syn);
        let clock = beginning.wrapping_add(self.last.1);
        Header {
            src_port: syn.dst_port,
            dst_port: syn.src_port,
            seq,
            ack: syn.seq + 1,
            flags: Flags::SYN | Flags::ACK,
            window: offer.window,
            options: Options {
                mss: Some(offer.mss),
                window_scale: offer.window_scale.filter(|_| scales),
                sack_permitted: sack,
                timestamps: Some(Timestamps {
                    val: self.syn_cookies.timestamp(clock, &kept),
                    echo,
                }),
                sack: SackBlocks::EMPTY,
            },
            ecn: wire::Ecn::NotEct,
        }
    }

    /// Looks whether a segment brings a cookie back.
    fn take_cookie(
        &self,
        env: &mut AccelEnv<'_>,
        rule: &mut Rule,
        segment: &Segment<'_>,
    ) -> Handled {
        let (parsed, header) = (segment.parsed, &segment.parsed.tcp);
        let flow = flow_of(env.function.id, segment);
        let Some((cookie, clock)) = self.syn_cookies.open_timed(flow, self.last.1, header) else {
            env.function.counters.accel_cookies_failed += 1;
            return Handled::Pass(None);
        };
        if rule.options.defer && parsed.payload_len == 0 && !header.flags.contains(Flags::FIN) {
            env.function.counters.accel_acks_deferred += 1;
            return Handled::Taken;
        }
        rule.credits -= 1;
        Handled::Pass(Some(Established {
            rule: rule.id,
            mss: cookie.mss,
            window_scale: cookie.window_scale,
            sack: cookie.sack,
            timestamp: clock,
        }))
    }
}

impl std::fmt::Debug for Oven {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Oven(secret)")
    }
}

/// What cookies take for the flow: its hash, and the function, whose cookies are no other's.
fn flow_of(function: FunctionId, segment: &Segment<'_>) -> u64 {
    segment.hash ^ u64::from(function.0) << 48
}

/// Whether it is worth looking for a cookie in a segment without SYN.
#[inline]
fn brings_cookie(syn_cookies: &SynCookies, header: &Header) -> bool {
    header.flags.contains(Flags::ACK)
        && !header.flags.contains(Flags::RST)
        && syn_cookies.might_open(header)
}

/// Whether a cookie can stand for a SYN, its sender is one that anybody may answer, and it is for one host (RFC 9293 §3.9.2.3).
fn is_served(segment: &Segment<'_>) -> bool {
    let (parsed, header) = (segment.parsed, &segment.parsed.tcp);
    let flow = &parsed.flow;
    let plausible = wire::is_of_one_host(flow.src.0)
        && wire::is_of_one_host(flow.dst.0)
        && ethernet::is_for_one(segment.frame)
        && flow.src.1 != 0;
    // An answer would have no VLAN tag.
    let is_bare = parsed.l3_offset == ethernet::HEADER_LEN && parsed.payload_len == 0;
    plausible && is_bare && !header.flags.intersects(Flags::FIN | Flags::URG)
}

/// Who sent a frame.
fn source(frame: &[u8]) -> MacAddr {
    ethernet::Header::parse(frame).map_or(MacAddr::ZERO, |(header, _)| header.source)
}
