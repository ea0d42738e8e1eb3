//! How fast bulk transfers are, over rate, delay and loss.

use std::time::Duration;

use tcp::{Algorithm, Config};

use crate::pair::{App, Link, Pair, Setup};

struct Case {
    algorithm: Algorithm,
    mbit: u64,
    rtt_ms: u64,
    loss: f64,
    seconds: u64,
    /// Share of the link's rate that must be reached.
    at_least: f64,
}

fn goodput(case: &Case) -> (f64, String) {
    let link = Link {
        rate: case.mbit * 1_000_000,
        delay: Duration::from_micros(case.rtt_ms * 500),
        // Half of the bandwidth-delay product.
        queue: (case.mbit * 1_000_000 / 8 * case.rtt_ms / 1000 / 2).max(200_000),
        coalesce: Duration::from_micros(20),
        ..Link::default()
    };
    let config = Config {
        congestion: case.algorithm,
        ..Config::default()
    };
    let mut pair = Pair::new(Setup {
        configs: [config.clone(), config],
        apps: [
            App {
                total: u64::MAX / 2,
                write: 1 << 20,
                ..App::default()
            },
            App::default(),
        ],
        links: [
            Link {
                loss: case.loss,
                ..link
            },
            link,
        ],
        seed: 7,
        ..Setup::default()
    });
    pair.run(Duration::from_secs(case.seconds));
    let info = pair.sides[0].connection.info(pair.now);
    let text = format!(
        "{:?} {} Mbit/s {} ms loss {}: {:.1} Mbit/s, cwnd {}, resent {}, timeouts {}, undos {}, dropped {}, rcv_space {}, srtt {:?}",
        case.algorithm,
        case.mbit,
        case.rtt_ms,
        case.loss,
        pair.goodput(1) / 1e6,
        info.cwnd,
        info.bytes_retrans,
        info.timeouts,
        info.undos,
        pair.dropped,
        pair.sides[1].connection.info(pair.now).rcv_space,
        info.srtt,
    );
    (pair.goodput(1) / (case.mbit as f64 * 1e6), text)
}

#[test]
fn bulk_transfers_use_the_link() {
    use Algorithm::{Cubic, NewReno};
    let case = |algorithm, mbit, rtt_ms, loss, seconds, at_least| Case {
        algorithm,
        mbit,
        rtt_ms,
        loss,
        seconds,
        at_least,
    };
    let cases = [
        case(Cubic, 1_000, 20, 0.0, 5, 0.8),
        case(Cubic, 1_000, 20, 0.001, 5, 0.02),
        case(Cubic, 1_000, 20, 0.01, 5, 0.004),
        case(NewReno, 1_000, 20, 0.0, 5, 0.6),
        case(NewReno, 1_000, 20, 0.001, 5, 0.015),
        case(NewReno, 1_000, 20, 0.01, 5, 0.004),
        case(Cubic, 10_000, 10, 0.0, 2, 0.6),
        case(Cubic, 10_000, 1, 0.05, 1, 0.002),
        case(Cubic, 100, 50, 0.0, 10, 0.8),
        case(Cubic, 10, 100, 0.0, 20, 0.8),
    ];
    let mut failed = Vec::new();
    for case in &cases {
        let (share, text) = goodput(case);
        println!("{text}");
        if share < case.at_least {
            failed.push(text);
        }
    }
    assert!(failed.is_empty(), "too slow: {failed:#?}");
}

#[test]
fn zz_trace() {
    let link = Link {
        rate: 10_000_000_000,
        delay: Duration::from_millis(5),
        queue: 6_250_000,
        coalesce: Duration::from_micros(20),
        ..Link::default()
    };
    let mut pair = Pair::new(Setup {
        apps: [
            App {
                total: u64::MAX / 2,
                write: 1 << 20,
                ..App::default()
            },
            App::default(),
        ],
        links: [link, link],
        ..Setup::default()
    });
    for _ in 0..60 {
        pair.run(Duration::from_millis(5));
        let i = pair.sides[0].connection.info(pair.now);
        println!(
            "{:?} cwnd {} ssthresh {:?} inflight {} unacked {} wnd {} lost {} sacked {} drop {} rtt {:?} space {} q {} {}",
            pair.now - pair.start,
            i.cwnd,
            i.ssthresh,
            i.in_flight,
            i.unacked,
            i.snd_wnd,
            i.lost,
            i.sacked,
            pair.dropped,
            i.srtt,
            pair.sides[1].connection.info(pair.now).rcv_space,
            i.not_sent,
            i.recovery
        );
    }
}
