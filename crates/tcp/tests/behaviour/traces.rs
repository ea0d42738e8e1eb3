//! What leaves, when, and how its sender sees the path: connections whose packets are written down in `traces`. Whatever changes one of them on purpose shows
//! there what it does; `LONGSHORE_WRITE=1` writes them anew.

use std::time::Duration;

use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;
use tcp::{Algorithm, Config, EcnMode, KeepAlive};
use testkit::written;
use wire::tcp::Flags;

use crate::link::Packet;
use crate::moving::change_owner;
use crate::other_owner::lend;
use crate::pair::{App, Filter, Link, Pair, Reader, Setup};
use crate::{MSS, ms, transfer};

/// Packets written down of a connection; of what comes behind, only a sum.
const WRITTEN: usize = 60;
const MINUTE: Duration = Duration::from_secs(60);

/// A connection's packets, at most so many of them in full, and what became of its ends.
fn told(pair: &mut Pair, most: usize) -> Vec<String> {
    let lines = pair.trace.take().expect("it was traced");
    let mut lines = written::shorten(lines, most);
    for side in &pair.sides {
        let info = side.connection.info(pair.now);
        lines.push(format!("{:?} read {} {:?}", side.ended, side.read, info));
    }
    lines
}

/// Runs a connection, from whose link the filter keeps packets.
fn trace(name: &str, setup: Setup, filter: Option<Filter>, run: impl FnOnce(&mut Pair)) {
    compare(name, setup, filter, WRITTEN, run);
}

/// The same, with all packets.
fn trace_all(name: &str, setup: Setup, filter: Option<Filter>, run: impl FnOnce(&mut Pair)) {
    compare(name, setup, filter, usize::MAX, run);
}

fn compare(
    name: &str,
    setup: Setup,
    filter: Option<Filter>,
    most: usize,
    run: impl FnOnce(&mut Pair),
) {
    let mut pair = Pair::new(setup);
    pair.filter = filter;
    pair.trace = Some(Vec::new());
    run(&mut pair);
    written::compare(env!("CARGO_MANIFEST_DIR"), name, &told(&mut pair, most));
}

/// Loses those packets of the client's with data, counted from 0, that are asked for; each that is sent counts.
fn without(lost: impl Fn(u32) -> bool + 'static) -> Option<Filter> {
    let mut count = 0;
    Some(Box::new(move |from, packet: &Packet| {
        let counts = from == 0 && packet.len() > 0;
        count += u32::from(counts);
        !counts || !lost(count - 1)
    }))
}

/// 20 ms both ways.
fn far() -> Link {
    Link {
        delay: ms(10),
        ..Link::default()
    }
}

/// The client sends so many bytes over a far link.
fn upload(total: u64, config: Config) -> Setup {
    Setup {
        configs: [config.clone(), config],
        apps: [App::sends(total), App::default()],
        links: [far(); 2],
        ..Setup::default()
    }
}

/// Lets so much time pass, whether or not anything happens.
fn rest(pair: &mut Pair, time: Duration) {
    let end = pair.now + time;
    pair.run(time);
    pair.now = end;
}

fn to_the_end(pair: &mut Pair) {
    pair.run_to_end(10 * MINUTE);
}

#[test]
fn begin_and_end() {
    let both = Setup {
        apps: [App::sends(20_000); 2],
        ..upload(0, Config::default())
    };
    trace("exchange", both.clone(), None, to_the_end);
    let simultaneous = Setup {
        simultaneous_open: true,
        ..both.clone()
    };
    trace("simultaneous_open", simultaneous, None, to_the_end);
    let mut late = both.clone();
    late.apps[1].closes_first = false;
    trace("half_closed", late, None, to_the_end);
    let plain = Config {
        timestamps: false,
        sack: false,
        window_scale: false,
        ..Config::default()
    };
    trace("no_options", upload(100_000, plain), None, to_the_end);
    let mut seen = [0; 2];
    let no_first: Filter = Box::new(move |from, packet| {
        seen[from] += 1;
        !(packet.header.flags.contains(Flags::SYN) && seen[from] < 3)
    });
    trace("syn_lost", both.clone(), Some(no_first), to_the_end);
    let mut ends = 0;
    let no_end: Filter = Box::new(move |_, packet| {
        ends += u32::from(packet.header.flags.contains(Flags::FIN));
        !packet.header.flags.contains(Flags::FIN) || ends > 3
    });
    trace("fin_lost", both, Some(no_end), to_the_end);
}

#[test]
fn congestion_control() {
    let narrow = |algorithm| {
        let mut setup = upload(
            1_500_000,
            Config {
                congestion: algorithm,
                ..Config::default()
            },
        );
        setup.links[0] = Link {
            rate: 20_000_000,
            queue: 60_000,
            ..far()
        };
        setup
    };
    trace("cubic", narrow(Algorithm::Cubic), None, to_the_end);
    trace("newreno", narrow(Algorithm::NewReno), None, to_the_end);
    let paced = Config {
        pacing: true,
        initial_window: 4,
        ..Config::default()
    };
    trace("paced", upload(400_000, paced), None, to_the_end);
    let asks = Config {
        ecn: EcnMode::Ask,
        ..Config::default()
    };
    trace("ecn", upload(300_000, asks), None, to_the_end);
    let mut idle = upload(200_000, Config::default());
    idle.apps = idle.apps.map(|app| App {
        closes_first: false,
        ..app
    });
    trace("after_a_pause", idle, None, |pair| {
        rest(pair, MINUTE);
        pair.sides[0].app.total += 200_000;
        rest(pair, MINUTE);
    });
}

#[test]
fn losses() {
    let all = Config::default();
    let size = 60 * u64::from(MSS);
    let lossy = |config: &Config| upload(size, config.clone());
    trace_all("one_lost", lossy(&all), without(|at| at == 12), to_the_end);
    trace_all(
        "some_lost",
        lossy(&all),
        without(|at| (12..17).contains(&at)),
        to_the_end,
    );
    trace_all(
        "last_lost",
        lossy(&all),
        without(|at| (58..61).contains(&at)),
        to_the_end,
    );
    trace_all(
        "again_lost",
        lossy(&all),
        without(|at| (9..10).contains(&at) || (40..46).contains(&at)),
        to_the_end,
    );
    trace_all(
        "all_lost",
        lossy(&all),
        without(|at| (20..42).contains(&at)),
        to_the_end,
    );
    let no_sack = Config {
        sack: false,
        ..all.clone()
    };
    trace_all(
        "no_sack",
        lossy(&no_sack),
        without(|at| at == 12 || at == 15),
        to_the_end,
    );
    let no_timestamps = Config {
        timestamps: false,
        ..all.clone()
    };
    trace_all(
        "no_timestamps",
        lossy(&no_timestamps),
        without(|at| at == 12 || at == 15),
        to_the_end,
    );
    let mut acks = 0;
    let half: Filter = Box::new(move |from, _| {
        acks += from;
        from == 0 || acks < 4 || acks % 2 == 0
    });
    trace_all("acks_lost", lossy(&all), Some(half), to_the_end);
    let mut reordered = lossy(&all);
    reordered.links[0] = Link {
        reorder: 0.2,
        duplicate: 0.05,
        jitter: ms(3),
        ..far()
    };
    trace_all("reordered", reordered, None, to_the_end);
    let mut merged = lossy(&all);
    merged.links[0].coalesce = ms(1);
    trace_all("merged", merged, without(|at| at == 30), to_the_end);
    // The timeout is spurious: nothing is lost, and the path takes longer than ever.
    trace_all("late", lossy(&all), None, |pair| {
        pair.run(ms(50));
        pair.links[0].delay = ms(600);
        pair.run(ms(400));
        pair.links[0].delay = ms(10);
        to_the_end(pair);
    });
}

#[test]
fn windows_and_small_segments() {
    let slow = Reader::Paced {
        bytes: 3_000,
        every: ms(150),
    };
    let small = Config {
        rcv_buf: 8_000,
        rcv_buf_max: 8_000,
        ..Config::default()
    };
    let mut slow_reader = upload(60_000, small);
    slow_reader.apps[1].reader = slow;
    trace("slow_reader", slow_reader.clone(), None, to_the_end);
    slow_reader.apps[1].reader = Reader::Paced {
        bytes: 8_000,
        every: ms(5_000),
    };
    let mut acks = 0;
    let no_update: Filter = Box::new(move |from, _| {
        acks += from;
        from == 0 || acks % 5 != 4
    });
    trace("window_probes", slow_reader, Some(no_update), to_the_end);
    for (name, nagle, delayed_ack) in [
        ("nagle", true, Some(ms(40))),
        ("no_nagle", false, Some(ms(40))),
        ("acked_at_once", true, None),
    ] {
        let config = Config {
            nagle,
            delayed_ack,
            ..Config::default()
        };
        let mut setup = upload(0, config);
        setup.apps = [App {
            total: 400,
            closes_first: false,
            ..App::default()
        }; 2];
        trace(name, setup, None, |pair| {
            for _ in 0..12 {
                rest(pair, ms(7));
                pair.sides[0].app.total += 400;
            }
            for _ in 0..3 {
                rest(pair, ms(500));
                pair.sides[0].app.total += 500;
                pair.sides[1].app.total += 100;
            }
            rest(pair, ms(500));
        });
    }
}

#[test]
fn peers_that_are_gone() {
    /// What the server sends is lost from when the client has sent so many packets.
    fn gone_behind(packets: u32) -> Option<Filter> {
        let mut sent = 0;
        Some(Box::new(move |from, _| {
            sent += u32::from(from == 0);
            sent <= packets
        }))
    }
    let patient = Config {
        keep_alive: Some(KeepAlive {
            idle: Duration::from_secs(10),
            interval: Duration::from_secs(2),
            probes: 3,
        }),
        retries: 5,
        orphan_retries: 3,
        ..Config::default()
    };
    let idle = |config: &Config| {
        let mut setup = upload(5_000, config.clone());
        setup.apps = setup.apps.map(|app| App {
            closes_first: false,
            ..app
        });
        setup
    };
    let go_on = |pair: &mut Pair| rest(pair, 10 * MINUTE);
    trace("kept_alive", idle(&patient), None, |pair| {
        pair.run(MINUTE);
        pair.sides[1].app.total += 1_000;
        pair.run(MINUTE);
    });
    trace("keep_alive_gone", idle(&patient), gone_behind(10), go_on);
    trace(
        "retries_gone",
        upload(100_000, patient.clone()),
        gone_behind(20),
        go_on,
    );
    let orphan = upload(3_000, patient.clone());
    trace("orphan_gone", orphan, gone_behind(3), |pair| {
        pair.run(ms(30));
        pair.sides[0].connection.detach(pair.now);
        rest(pair, 10 * MINUTE);
    });
    let hurried = Config {
        user_timeout: Some(Duration::from_secs(7)),
        ..patient
    };
    trace("user_timeout", idle(&hurried), gone_behind(3), go_on);
}

#[test]
fn paths_that_take_less() {
    let narrow =
        |most: u32| -> Option<Filter> { Some(Box::new(move |_, packet| packet.len() <= most)) };
    for (name, mtu_probing, most) in [
        ("path_search", true, 1_300),
        ("path_wide", true, 9_000),
        ("black_hole", true, 700),
    ] {
        let config = Config {
            mtu_probing,
            mss: 8_960,
            ..Config::default()
        };
        trace(
            name,
            upload(300_000, config.clone()),
            narrow(most),
            |pair| {
                pair.run(20 * MINUTE);
            },
        );
        // Packets are lost beside those that are too large.
        let mut lossy = upload(400 * u64::from(most), config);
        lossy.links[0].loss = 0.02;
        trace(&format!("{name}_lossy"), lossy, narrow(most), to_the_end);
    }
}

/// Both sides send over a link with faults; they are given from owner to owner.
#[test]
fn other_owners() {
    let config = Config {
        rcv_buf: 64 << 10,
        ..Config::default()
    };
    let faults = Link {
        loss: 0.02,
        reorder: 0.05,
        ..Link::default()
    };
    let setup = || Setup {
        apps: [App::sends(200_000); 2],
        links: [Link {
            rate: 20_000_000,
            ..faults
        }; 2],
        ..upload(0, config.clone())
    };
    trace("moved", setup(), None, |pair| {
        for number in 0..12 {
            pair.run(ms(9));
            change_owner(pair, number % 2, &config, number % 3 == 0);
        }
        to_the_end(pair);
    });
    trace("lent", setup(), None, |pair| {
        for number in 0..8 {
            pair.run(ms(4));
            lend(pair, number % 2, number % 3 == 1, (5, 1 + number % 3));
        }
        to_the_end(pair);
    });
}

/// Settings and links of all kinds; a line for each.
#[test]
fn of_all_kinds() {
    let mut runner = TestRunner::deterministic();
    let lines: Vec<_> = (0..100)
        .map(|_| {
            let setup = transfer::setup().new_tree(&mut runner).expect("a setup");
            let mut pair = Pair::new(setup.current());
            pair.trace = Some(Vec::new());
            let took = pair.run_to_end(1440 * MINUTE);
            let packets = pair.trace.as_ref().map_or(0, Vec::len);
            let lines = told(&mut pair, 0);
            format!(
                "{packets} packets, {} lost, {took:?}, {:016x}",
                pair.dropped,
                written::sum_lines(&lines)
            )
        })
        .collect();
    written::compare(env!("CARGO_MANIFEST_DIR"), "of_all_kinds", &lines);
}
