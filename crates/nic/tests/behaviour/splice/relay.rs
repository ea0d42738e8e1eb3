//! Two TCPs with a splice between them, on a bad network: they end as with a relay in between.
//!
//! ```text
//!  peer 0 ── link ── NIC (splice) ── link ── peer 1
//!                     │  after it is taken back, or has ended
//!                    host: relays, or answers with RST
//! ```

use std::time::Duration;

use nic::ring::accel::SpliceEnd;
use proptest::prelude::*;
use tcp::{CloseReason, Config};

use super::rig::{A, B};
use super::world::{Plan, World};
use testkit::link::Faults;

fn config() -> impl Strategy<Value = Config> {
    let buffers = prop_oneof![Just(60 << 10), Just(300 << 10), Just(8 << 20)];
    (
        buffers,
        any::<bool>(),
        any::<bool>(),
        prop_oneof![Just(1200u16), Just(1460), Just(4000)],
    )
        .prop_map(|(buffer, sack, delays_acks, mss)| Config {
            mss,
            rcv_buf: buffer.min(256 << 10),
            rcv_buf_max: buffer,
            snd_buf: 128 << 10,
            sack,
            delayed_ack: delays_acks.then_some(Duration::from_millis(40)),
            time_wait: Duration::from_secs(60),
            ..Config::default()
        })
}

prop_compose! {
    fn plan()(
        seed in any::<u64>(),
        mut configs in [config(), config(), config(), config()],
        timestamps in any::<bool>(),
        scales in any::<[bool; 4]>(),
        isns in prop_oneof![any::<[u32; 4]>(), Just([u32::MAX - 20_000; 4])],
        before in [0u32..5000, 0u32..5000],
        totals in [prop_oneof![Just(0u64), 0u64..200_000], prop_oneof![Just(0u64), 0u64..200_000]],
        closes_first in prop_oneof![Just([true, false]), Just([false, true]), Just([true, true])],
        slow in any::<[bool; 2]>(),
        bad in 0usize..4,
    ) -> Plan {
        for (at, (config, scale)) in configs.iter_mut().zip(scales).enumerate() {
            config.timestamps = timestamps;
            config.window_scale = scale;
            // The host in the middle takes what both peers take.
            if at >= 2 {
                config.mss = 1200;
            }
        }
        let link = Faults {
            delay: Duration::from_millis(3),
            loss: [0.0, 0.01, 0.05, 0.0][bad],
            duplicate: [0.0, 0.01, 0.05, 0.0][bad],
            reorder: [0.0, 0.02, 0.1, 0.3][bad],
            jitter: Duration::from_millis(9),
        };
        let corrupt = [0.0, 0.01, 0.02, 0.0][bad];
        Plan { seed, configs, isns, before, totals, closes_first, slow, link, corrupt, aborts: None, taken_back: None }
    }
}

/// A peer that has agreed to SACK and gets no SACK blocks finds losses by time-outs only.
const LIMIT: Duration = Duration::from_secs(12 * 3600);

/// Both peers have got all bytes and the end, and have closed in order.
fn is_complete(world: &World, plan: &Plan) -> Result<(), TestCaseError> {
    for side in [A, B] {
        let peer = &world.peers[side];
        prop_assert!(
            peer.is_over(),
            "side {side}: {:#?}",
            peer.connection.info(world.now)
        );
        prop_assert_eq!(peer.read, plan.totals[1 - side]);
        prop_assert!(peer.saw_end);
        prop_assert!(matches!(peer.ended, None | Some(CloseReason::Graceful)));
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn all_bytes_and_both_closes_arrive(plan in plan()) {
        let mut world = World::new(&plan);
        world.run(LIMIT);
        is_complete(&world, &plan)?;
        let ended = world.ended.expect("the splice has ended");
        prop_assert_eq!(ended.reason, SpliceEnd::Finished);
        prop_assert_eq!(ended.bytes, plan.totals);
    }

    #[test]
    fn taken_back_at_any_time_it_is_relayed_to_the_end(plan in plan(), at in 0u64..400) {
        let plan = Plan { taken_back: Some(Duration::from_millis(at)), ..plan };
        let mut world = World::new(&plan);
        world.run(LIMIT);
        if world.given_up {
            return Ok(());
        }
        is_complete(&world, &plan)?;
        let ended = world.ended.expect("the splice has ended");
        prop_assert!(matches!(ended.reason, SpliceEnd::Finished | SpliceEnd::TakenBack));
    }

    #[test]
    fn a_reset_of_one_is_one_of_the_other(plan in plan(), side in 0usize..2, at in 0u64..400) {
        let plan = Plan { aborts: Some((side, Duration::from_millis(at))), ..plan };
        let mut world = World::new(&plan);
        world.run(LIMIT);
        let other = &world.peers[1 - side];
        let was_closed = !world.aborted;
        // A peer that sends nothing does not learn of a RST that is lost.
        let waits = plan.link.loss + plan.corrupt > 0.0
            && other.connection.snd_una() == other.connection.snd_nxt();
        prop_assert!(other.is_over() || waits, "{:#?}", other.connection.info(world.now));
        prop_assert!(other.read <= plan.totals[side]);
        if !was_closed && world.ended.is_some_and(|ended| ended.reason != SpliceEnd::Finished) {
            prop_assert!(other.ended.is_none_or(|reason| reason != CloseReason::TimedOut));
        }
    }
}
