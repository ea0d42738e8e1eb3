use std::time::Duration;

use super::case::{Counted, Mode, Program, round};
use super::server::ProcessorTime;
use super::settings::Settings;
use crate::bench::case::Case;
use crate::bench::experiment::Experiment;
use crate::bench::web::wrk::Load;

/// A mode whose server had so many milliseconds for 1,000 requests in a second: the host's thread, and all.
fn case(mode: Mode, host: u64, all: u64) -> Case<Mode, Counted> {
    let load = Load {
        requests: 1000,
        bytes: 1_000_000,
        took: Duration::from_secs(1),
        ..Load::default()
    };
    let took = ProcessorTime {
        host: Duration::from_millis(host),
        all: Duration::from_millis(all),
    };
    Case::median(Settings::UNIT, mode, vec![round(&load, took)])
}

#[test]
fn rates_are_by_the_time_of_the_host_and_of_all_threads() {
    let counted = case(Mode::https(Program::Serve), 100, 400).counted;
    assert_eq!(counted.requests_per_host_cpu_second.round(), 10_000.0);
    assert_eq!(counted.requests_per_cpu_second.round(), 2_500.0);
    assert_eq!(counted.busy_percent.round(), 40.0);
    assert_eq!(counted.gbit_per_second, 0.008);
}

#[test]
fn longshore_is_compared_with_nginx_and_modes_that_are_missing_with_nothing() {
    let cases = [
        case(Mode::https(Program::Nginx), 500, 500),
        case(Mode::https(Program::Serve), 100, 400),
        case(Mode::https(Program::ServeOneThread), 250, 250),
    ];
    let ratios = Settings::ratios(&cases);
    let rounded = |key| ratios.get(key).map(|ratio: f64| (ratio * 100.0).round());
    assert_eq!(rounded("https_host"), Some(500.0));
    assert_eq!(rounded("https_all"), Some(125.0));
    assert_eq!(rounded("https_one_thread"), Some(200.0));
    assert_eq!(rounded("http_host"), None);
}

#[test]
fn time_that_a_thread_was_given_while_the_others_were_read_is_not_negative() {
    let ms = Duration::from_millis;
    let before = ProcessorTime {
        host: ms(10),
        all: ms(20),
    };
    let after = ProcessorTime {
        host: ms(9),
        all: ms(30),
    };
    let took = after.since(before);
    assert_eq!((took.host, took.all), (ms(0), ms(10)));
    let after = ProcessorTime {
        host: ms(25),
        all: ms(30),
    };
    assert_eq!(after.since(before).host, ms(10));
}
