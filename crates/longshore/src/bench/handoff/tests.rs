use host::handoff::policy::Selection;

use super::case::Mode;
use super::pages::{Pages, Parsed};
use super::settings::Settings;
use crate::bench::experiment::{measure, page};
use crate::bench::settings::Run;

fn settings() -> Settings {
    Settings {
        connections: 20,
        at_once: 8,
        file_bytes: 4096,
        requests: 400,
        selection: Selection::Fcfs,
        nic_connections: None,
        seed: 3,
        run: Run::quiet(1),
    }
}

#[test]
fn every_mode_has_a_row_and_every_byte_is_verified() {
    let report = measure(&settings()).expect("the benchmark runs");
    assert!(report.verified);
    let modes: Vec<Mode> = report.cases.iter().map(|case| case.mode).collect();
    assert_eq!(modes, Mode::ALL);
    for case in &report.cases {
        assert_eq!(case.cost.count, 400);
        assert!(case.cost.per_host_core > 0.0, "{case:?}");
        let latency = case.latency_us.expect("it is measured");
        assert!(latency.p50 > 0.0 && latency.p50 <= latency.max);
    }
    assert!(report.figures.load_control_cycles_per_packet > 0.0);
}

#[test]
fn the_nic_has_every_connection_where_it_has_room_for_all() {
    for selection in [Selection::Fcfs, Selection::Threshold(4)] {
        let report = measure(&Settings {
            selection,
            ..settings()
        })
        .expect("the benchmark runs");
        for case in &report.cases {
            let (host, nic) = match case.mode {
                Mode::Host => (20, 0),
                Mode::Handoff => (0, 20),
            };
            let owned = case.counted.connections;
            assert_eq!(owned.host, host, "{selection}: {case:?}");
            assert_eq!(owned.nic, nic, "{selection}: {case:?}");
        }
        assert_eq!(report.figures.moves.connections, 20);
        assert!(report.figures.moves.handoff_us > 0.0 && report.figures.moves.restore_us > 0.0);
    }
}

#[test]
fn a_nic_with_room_for_some_has_these_and_the_host_has_the_others() {
    let report = measure(&Settings {
        nic_connections: Some(5),
        ..settings()
    })
    .expect("the benchmark runs");
    let handoff = &report.cases[1].counted.connections;
    assert_eq!((handoff.host, handoff.nic), (15, 5));
}

#[test]
fn files_of_one_byte_and_of_many_segments_arrive() {
    for file_bytes in [1, 200_000] {
        let report = measure(&Settings {
            file_bytes,
            connections: 3,
            requests: 60,
            ..settings()
        })
        .expect("the benchmark runs");
        assert!(report.verified);
    }
}

#[test]
fn a_request_is_read_whole_or_not_at_all() {
    let pages = Pages::new(1, 4096);
    let mut request = Vec::new();
    pages.write_request(17, &mut request);
    assert_eq!(pages.parse(&request), Parsed::File(17));
    for len in 0..request.len() {
        assert_eq!(pages.parse(&request[..len]), Parsed::Part, "{len}");
    }
    request.push(b'G');
    assert_eq!(pages.parse(&request), Parsed::Wrong);
    pages.write_request(pages.files(), &mut request);
    assert_eq!(pages.parse(&request), Parsed::Wrong);
    assert_eq!(pages.parse(b"EHLO there\r\n\r\n"), Parsed::Wrong);
}

#[test]
fn a_byte_of_another_file_is_found() {
    let pages = Pages::new(1, 4096);
    let mut response = pages.head().to_vec();
    let head = response.len();
    assert_eq!(pages.response_len(), head + 4096);
    let content = pages.region();
    let mut bytes = vec![0; 4096];
    assert!(content.read(4096, &mut bytes));
    response.extend_from_slice(&bytes);
    for place in [0, 3, head - 1, head, head + 1, 4000] {
        assert!(pages.check_response(1, place, &response[place..]));
        assert!(!pages.check_response(2, place, &response[place..]));
    }
    response[head + 5] ^= 1;
    assert!(!pages.check_response(1, 0, &response));
    response[head + 5] ^= 1;
    response[5] ^= 1;
    assert!(!pages.check_response(1, 2, &response[2..]));
}

#[test]
fn the_json_has_the_documented_keys() {
    let report = measure(&settings()).expect("the benchmark runs");
    let json = serde_json::to_value(&report).expect("a report is plain data");
    assert!(json["ratios"]["handoff_vs_host"].is_number());
    assert!(json["moves"]["handoff_us"].is_number());
    assert!(json["moves"]["restore_us"].is_number());
    assert!(json["load_control_cycles_per_packet"].is_number());
    for case in json["cases"].as_array().expect("rows") {
        for key in ["p50", "p90", "p99", "p999", "max"] {
            assert!(case["latency_us"][key].is_number(), "{key}");
        }
        assert!(case["host_cycles_per_request"]["total"].is_number());
        assert!(case["nic_cycles_per_request"]["total"].is_number());
    }
}

#[test]
fn the_report_fits_a_terminal_and_ends_in_its_conclusion() {
    let report = measure(&settings()).expect("the benchmark runs");
    crate::report::assert_concludes(
        &page(&settings(), &report),
        "as many requests per host cycle",
    );
}
