//! Which splices can be made.

use ::tcp::{MIN_MSS, TIMESTAMPS_LEN};
use wire::ethernet::MacAddr;

use crate::accel::AccelEnv;
use crate::ring::ErrorCode;
use crate::ring::accel::{Leg, Splice};

/// The longest idle time: times further ahead than this can't be distinguished from past ones.
const MAX_IDLE_MS: u32 = 1 << 30;

/// As small as our own stack goes. With less, a packet of a peer's would leave as hundreds, at the cost of all functions.
const LEAST_MSS: u16 = MIN_MSS - TIMESTAMPS_LEN;

/// Whether what the two connections have agreed to can be translated.
///
/// That one takes selective acknowledgements and the other does not can be: they are left out. But then a peer that counts on
/// them finds losses by time-outs only, so that a host may like to relay instead.
pub(super) fn check(splice: &Splice, env: &AccelEnv<'_>) -> Result<(), ErrorCode> {
    let (a, b) = (&splice.a, &splice.b);
    let family = |leg: &Leg| {
        let (src, dst) = (leg.flow.src.0.is_ipv6(), leg.flow.dst.0.is_ipv6());
        (src == dst).then_some(src)
    };
    let (Some(a_v6), Some(b_v6)) = (family(a), family(b)) else {
        return Err(ErrorCode::BadParameters);
    };
    // A next hop that is the function itself would have the device chase its own frames.
    let own = env.function.config.mac;
    let is_hop = |mac: MacAddr| mac.is_unicast() && mac != MacAddr::ZERO && mac != own;
    let is_small = |leg: &Leg| leg.mss.min(leg.our_mss) < LEAST_MSS;
    if a.flow == b.flow
        || !is_hop(a.hop)
        || !is_hop(b.hop)
        || is_small(a)
        || is_small(b)
        || splice.idle_ms > MAX_IDLE_MS
    {
        return Err(ErrorCode::BadParameters);
    }
    if a_v6 != b_v6 {
        return Err(ErrorCode::SpliceFamilies);
    }
    if a.timestamps.is_some() != b.timestamps.is_some() {
        return Err(ErrorCode::SpliceOptions);
    }
    if a.our_mss > b.mss || b.our_mss > a.mss {
        return Err(ErrorCode::SpliceMss);
    }
    Ok(())
}
