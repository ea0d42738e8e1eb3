use super::case::Mode;
use super::settings::Settings;
use crate::bench::exchange::Messages;
use crate::bench::experiment::{measure, page};
use crate::bench::settings::Run;

fn settings() -> Settings {
    Settings {
        request_bytes: 64,
        response_bytes: 64,
        transactions_per_connection: 1,
        connections: 20,
        transactions: 400,
        seed: 3,
        run: Run::quiet(1),
        linux: false,
    }
}

#[test]
fn every_mode_has_a_row_and_every_byte_is_verified() {
    let report = measure(&settings()).expect("the benchmark runs");
    assert!(report.verified);
    let modes: Vec<Mode> = report.cases.iter().map(|case| case.mode).collect();
    assert_eq!(modes, Mode::OURS);
    for case in &report.cases {
        assert_eq!(case.cost.count, 400);
        assert!(case.cost.per_host_core > 0.0, "{case:?}");
        let latency = case.latency_us.expect("it is measured");
        assert!(latency.p50 > 0.0 && latency.p50 <= latency.max);
    }
}

#[test]
fn messages_of_one_byte_and_of_many_segments_arrive_over_one_connection() {
    for (request_bytes, response_bytes) in [(1, 200_000), (200_000, 1), (2, 3)] {
        let report = measure(&Settings {
            request_bytes,
            response_bytes,
            transactions_per_connection: 7,
            connections: 3,
            transactions: 60,
            ..settings()
        })
        .expect("the benchmark runs");
        assert!(report.verified);
        assert_eq!(report.cases[0].cost.count, 63);
    }
}

#[test]
fn a_byte_of_another_transaction_is_found() {
    let messages = Messages::new(1, 64, 64);
    let (one, other) = (messages.key(1), messages.key(2));
    let mut request = Vec::new();
    messages.write_request(one, &mut request);
    let mut key = 0;
    assert!(messages.take_request(&mut key, 0, &request[..1]));
    assert!(messages.take_request(&mut key, 1, &request[1..]));
    assert_eq!(key, one);
    request[40] ^= 1;
    assert!(!messages.take_request(&mut 0, 0, &request));
    assert!(messages.check_response(one, 3, &messages.response(one)[3..]));
    assert!(!messages.check_response(other, 3, &messages.response(one)[3..]));
}

#[test]
fn linux_serves_the_same_client_where_there_are_privileges_for_it() {
    let report = measure(&Settings {
        linux: true,
        transactions_per_connection: 3,
        request_bytes: 3000,
        response_bytes: 100_000,
        transactions: 90,
        connections: 5,
        ..settings()
    })
    .expect("the benchmark runs");
    assert!(report.verified);
    let row = report.cases.iter().find(|case| case.mode == Mode::Linux);
    match row {
        Some(row) => {
            assert_eq!(row.cost.count, 90);
            assert!(row.cost.per_host_core > 0.0);
            assert!(row.latency_us.is_some_and(|latency| latency.p50 > 0.0));
            let ratio = report.ratios.get("accel_vs_linux");
            assert!(ratio.is_some_and(|ratio| ratio > 0.0));
        }
        // Where there are none, the report says what to do.
        None => assert!(
            report.notes[0].contains("CAP_NET_ADMIN"),
            "{:?}",
            report.notes
        ),
    }
}

#[test]
fn the_json_has_the_documented_keys() {
    let report = measure(&settings()).expect("the benchmark runs");
    let json = serde_json::to_value(&report).expect("a report is plain data");
    for key in [
        "accel_vs_host",
        "setup_vs_host",
        "teardown_vs_host",
        "both_vs_host",
    ] {
        assert!(json["ratios"][key].is_number(), "{key}");
    }
    assert!(json["ratios"]["accel_vs_linux"].is_null());
    for case in json["cases"].as_array().expect("rows") {
        for key in ["p50", "p90", "p99", "p999", "max"] {
            assert!(case["latency_us"][key].is_number(), "{key}");
        }
        assert!(case["host_cycles_per_transaction"]["total"].is_number());
        assert!(case["nic_cycles_per_transaction"]["total"].is_number());
    }
}

#[test]
fn the_nic_does_its_part_for_every_connection_where_it_is_asked() {
    let report = measure(&settings()).expect("the benchmark runs");
    for case in &report.cases {
        let accel = case.mode.accel();
        let by_nic = case.counted.by_nic;
        let all = |is_asked| if is_asked { by_nic.connections } else { 0 };
        assert_eq!(by_nic.set_up, all(accel.setup), "{case:?}");
        assert_eq!(by_nic.torn_down, all(accel.teardown), "{case:?}");
        assert_eq!(by_nic.promoted, 0, "{case:?}");
    }
}

#[test]
fn the_report_fits_a_terminal_and_ends_in_its_conclusion() {
    let report = measure(&settings()).expect("the benchmark runs");
    crate::report::assert_concludes(
        &page(&settings(), &report),
        "as many transactions per host cycle",
    );
}
