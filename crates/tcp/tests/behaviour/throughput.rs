//! How fast bulk transfers are, over rate, delay and loss.

use std::time::Duration;

use tcp::Algorithm::{self, Cubic, NewReno};
use tcp::Config;

use crate::pair::{App, Link, Pair, Setup};

struct Case {
    algorithm: Algorithm,
    mbit: u64,
    rtt_micros: u64,
    loss: f64,
    millis: u64,
    /// Mbit/s that must be reached.
    at_least: f64,
}

const fn case(
    algorithm: Algorithm,
    mbit: u64,
    rtt_micros: u64,
    loss: f64,
    millis: u64,
    at_least: f64,
) -> Case {
    Case {
        algorithm,
        mbit,
        rtt_micros,
        loss,
        millis,
        at_least,
    }
}

/// Under random loss p, Reno reaches 1.22 MSS / (RTT sqrt p): 22 Mbit/s at 20 ms and 0.1 %, 7 at 1 %. CUBIC is a little
/// above that.
const CASES: &[Case] = &[
    case(Cubic, 1_000, 20_000, 0.0, 3_000, 800.0),
    case(Cubic, 1_000, 20_000, 0.001, 5_000, 20.0),
    case(Cubic, 1_000, 20_000, 0.01, 5_000, 5.5),
    case(NewReno, 1_000, 20_000, 0.0, 3_000, 800.0),
    case(NewReno, 1_000, 20_000, 0.001, 5_000, 18.0),
    case(NewReno, 1_000, 20_000, 0.01, 5_000, 5.0),
    // 16 MiB of window, 12.5 MB of path, and the time that slow start takes.
    case(Cubic, 10_000, 10_000, 0.0, 1_000, 8_000.0),
    case(Cubic, 10_000, 100, 0.0, 100, 7_000.0),
    case(Cubic, 10_000, 100, 0.005, 1_000, 900.0),
    case(Cubic, 10_000, 1_000, 0.05, 2_000, 30.0),
    case(Cubic, 100, 50_000, 0.0, 5_000, 75.0),
    case(Cubic, 10, 100_000, 0.0, 10_000, 8.0),
];

#[test]
fn bulk_transfers_use_the_link() {
    let mut too_slow = Vec::new();
    for case in CASES {
        let (mbit, text) = measure(case);
        println!("{text}");
        if mbit < case.at_least {
            too_slow.push(text);
        }
    }
    assert!(too_slow.is_empty(), "{too_slow:#?}");
}

fn measure(case: &Case) -> (f64, String) {
    let link = Link {
        rate: case.mbit * 1_000_000,
        delay: Duration::from_micros(case.rtt_micros / 2),
        // The bandwidth-delay product.
        queue: (case.mbit * case.rtt_micros / 8).max(400_000),
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
    pair.run(Duration::from_millis(case.millis));
    let mbit = pair.goodput(1) / 1e6;
    let info = pair.sides[0].connection.info(pair.now);
    let receiver = pair.sides[1].connection.info(pair.now);
    let text = format!(
        "{:?}, {} Mbit/s, {} µs, loss {}: {mbit:.1} Mbit/s; cwnd {}, srtt {:?}, resent {}, timeouts {}, undos {}, \
         lost on the way {}, receive buffer {}",
        case.algorithm,
        case.mbit,
        case.rtt_micros,
        case.loss,
        info.cwnd,
        info.srtt,
        info.retrans,
        info.timeouts,
        info.undos,
        pair.dropped,
        receiver.rcv_space,
    );
    (mbit, text)
}
