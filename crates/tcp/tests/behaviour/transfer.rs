//! Whatever the link does, the bytes arrive, once and in order, and both sides end.

use std::time::Duration;

use proptest::prelude::*;
use tcp::{Algorithm, Config, State};

use crate::pair::{App, Link, Pair, Reader, Setup};

const HOUR: Duration = Duration::from_secs(3600);

#[test]
fn an_unhurried_exchange_completes() {
    let app = App {
        total: 1_000_000,
        ..App::default()
    };
    let mut pair = Pair::new(Setup {
        apps: [app; 2],
        ..Setup::default()
    });
    pair.run_to_end(HOUR);
    assert_eq!(pair.sides[0].resent_out + pair.sides[1].resent_out, 0);
    pair.run(HOUR);
    assert!(
        pair.sides.iter().all(|side| side.state() == State::Closed),
        "TIME-WAIT ends too"
    );
}

fn isn() -> impl Strategy<Value = u32> {
    prop_oneof![
        any::<u32>(),
        (0u32..200_000).prop_map(|below| 0u32.wrapping_sub(below)),
        (0u32..200_000).prop_map(|below| 0x8000_0000u32.wrapping_sub(below)),
    ]
}

fn config() -> impl Strategy<Value = Config> {
    let sizes = (
        prop_oneof![Just(1460u16), Just(536), Just(8960), 100u16..3000],
        prop_oneof![Just(1u32 << 18), 2_000u32..70_000, 1u32..2_000],
        prop_oneof![Just(16u32 << 20), 70_000u32..300_000],
        prop_oneof![Just(65_400u32), Just(0), 1u32..20_000],
        prop_oneof![Just(16u32 << 20), 1_000u32..100_000],
    );
    let switches = (any::<[bool; 6]>(), any::<bool>());
    (sizes, switches).prop_map(
        |((mss, rcv_buf, rcv_buf_max, tso_max, snd_buf), (on, delayed))| {
            let [nagle, timestamps, sack, window_scale, cubic, _] = on;
            Config {
                mss,
                rcv_buf,
                rcv_buf_max,
                tso_max,
                snd_buf,
                nagle,
                timestamps,
                sack,
                window_scale,
                congestion: if cubic {
                    Algorithm::Cubic
                } else {
                    Algorithm::NewReno
                },
                delayed_ack: delayed.then_some(Duration::from_millis(40)),
                // Patience for the worst of links.
                retries: 60,
                syn_retries: 30,
                ..Config::default()
            }
        },
    )
}

fn reader() -> impl Strategy<Value = Reader> {
    prop_oneof![
        3 => Just(Reader::Eager),
        1 => (1_000u32..50_000, 1u64..200).prop_map(|(bytes, ms)| Reader::Paced { bytes, every: Duration::from_millis(ms) }),
    ]
}

fn app() -> impl Strategy<Value = App> {
    let total = prop_oneof![Just(0u64), 1u64..2_000, 2_000u64..400_000];
    let write = prop_oneof![Just(1u32 << 18), 1u32..5_000];
    (total, write, reader(), any::<bool>()).prop_map(|(total, write, reader, _)| App {
        total,
        // Not too many tiny writes.
        write: write.max((total / 300) as u32),
        reader,
        closes_first: true,
    })
}

fn link() -> impl Strategy<Value = Link> {
    let rates = prop_oneof![Just(1_000_000_000u64), 1_000_000u64..100_000_000];
    let delays = prop_oneof![Just(0u64), 1u64..30_000];
    let chance = || prop_oneof![2 => Just(0.0), 1 => 0.0..0.02, 1 => 0.02..0.25];
    (
        rates,
        delays,
        chance(),
        chance(),
        chance(),
        prop_oneof![Just(0u64), 1u64..2_000],
    )
        .prop_map(|(rate, micros, loss, reorder, duplicate, coalesce)| Link {
            rate,
            delay: Duration::from_micros(micros),
            queue: 300_000,
            loss,
            reorder,
            duplicate,
            jitter: Duration::from_micros(micros * 2 + 200),
            coalesce: Duration::from_micros(coalesce),
        })
}

fn setup() -> impl Strategy<Value = Setup> {
    (
        [config(), config()],
        [app(), app()],
        [link(), link()],
        [isn(), isn()],
        any::<u64>(),
        any::<bool>(),
    )
        .prop_map(
            |(configs, apps, links, isns, seed, simultaneous_open)| Setup {
                configs,
                apps,
                links,
                isns,
                seed,
                simultaneous_open,
            },
        )
}

proptest! {
    #![proptest_config(crate::cases(1_000))]

    /// RFC 9293 §3.10, and everything that repairs a link.
    #[test]
    fn every_exchange_completes(setup in setup(), one_closes_late: bool) {
        let mut setup = setup;
        setup.apps[1].closes_first = !one_closes_late;
        let mut pair = Pair::new(setup);
        pair.run_to_end(24 * HOUR);
    }
}
