//! Whatever the link does, the bytes arrive, once and in order, and both sides end.

use std::time::Duration;

use proptest::prelude::*;
use tcp::{Algorithm, Config, EcnMode, State};

use crate::pair::{App, Link, Pair, Reader, Setup};

const HOUR: Duration = Duration::from_secs(3600);

#[test]
fn an_unhurried_exchange_completes() {
    let app = App::sends(1_000_000);
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
    let switches = (any::<[bool; 8]>(), any::<bool>());
    (sizes, switches).prop_map(
        |((mss, rcv_buf, rcv_buf_max, tso_max, snd_buf), (on, delayed))| {
            let [
                nagle,
                timestamps,
                sack,
                window_scale,
                cubic,
                asks,
                pacing,
                mtu_probing,
            ] = on;
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
                pacing,
                mtu_probing,
                congestion: if cubic {
                    Algorithm::Cubic
                } else {
                    Algorithm::NewReno
                },
                ecn: match asks {
                    true => EcnMode::Ask,
                    false => EcnMode::Accept,
                },
                delayed_ack: delayed.then_some(Duration::from_millis(40)),
                // TimerSnapshot for the worst of links.
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

/// Settings, applications and links of all kinds.
pub fn setup() -> impl Strategy<Value = Setup> {
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

/// Settings and a link that give no reason to wait.
fn clean_setup() -> impl Strategy<Value = Setup> {
    let config = || {
        (config(), 8_960u32..100_000, 100_000u32..(16 << 20)).prop_map(
            |(config, rcv_buf, rcv_buf_max)| Config {
                rcv_buf: rcv_buf.max(2 * u32::from(config.mss)),
                rcv_buf_max,
                snd_buf: 16 << 20,
                // Marks are a reason.
                ecn: EcnMode::Off,
                ..config
            },
        )
    };
    let link = (
        100_000_000u64..10_000_000_000,
        1u64..30_000,
        prop_oneof![Just(0u64), 1u64..200],
    );
    let link = link.prop_map(|(rate, micros, coalesce)| Link {
        rate,
        delay: Duration::from_micros(micros),
        queue: 64 << 20,
        coalesce: Duration::from_micros(coalesce),
        ..Link::default()
    });
    (
        config(),
        config(),
        link,
        [isn(), isn()],
        [0u64..3_000_000, 0u64..3_000_000],
        any::<u64>(),
    )
        .prop_map(|(a, b, link, isns, totals, seed)| Setup {
            configs: [a, b],
            apps: totals.map(|total| App {
                total,
                ..App::default()
            }),
            links: [link; 2],
            isns,
            seed,
            simultaneous_open: false,
        })
}

proptest! {
    #![proptest_config(crate::cases(300))]

    /// On a link that loses nothing, next to nothing is sent twice, and no timeout has to come to the rescue.
    #[test]
    fn a_clean_link_is_used_without_pauses(setup in clean_setup()) {
        let link = setup.links[0];
        let totals = setup.apps.map(|app| app.total);
        let smallest = setup.configs.iter().map(|config| config.mss).min().unwrap_or(1);
        let scaled = setup.configs.iter().all(|config| config.window_scale);
        let window = setup.configs.iter().map(|config| config.rcv_buf_max).min().unwrap_or(1);
        let window = if scaled { window } else { window.min(65_535) };
        let mut pair = Pair::new(setup);
        let elapsed = pair.run_to_end(HOUR);
        for side in &pair.sides {
            let info = side.connection.info(pair.now);
            // The first data may take longer than a handshake lets expect: a needless probe or two (RFC 8985 §7).
            prop_assert!(info.retrans <= 2 && info.timeouts == 0, "{:?}", info);
        }
        // Receive windows are tuned in rounds of a millisecond or more.
        let rtt = (2 * (link.delay + link.coalesce) + Duration::from_micros(200)).max(Duration::from_millis(2));
        // What the link carries, headers included, or what the window lets through.
        let most = totals.into_iter().max().unwrap_or(0) as f64;
        let wire = most * (1.0 + 100.0 / f64::from(smallest)) * 8.0 / link.rate as f64;
        let windows = most / f64::from(window) * rtt.as_secs_f64();
        let on_wire = Duration::from_secs_f64(wire.max(windows));
        // Slow start from ten segments, or from one where a window holds no more.
        let rounds = 8 + (most / f64::from(smallest)).max(1.0).log2() as u32 * 2;
        let bound = on_wire.mul_f64(1.3) + rtt * rounds + Duration::from_millis(100);
        prop_assert!(elapsed <= bound, "{elapsed:?} for {bound:?}");
    }
}
