use super::case::Mode;
use super::settings::Settings;
use crate::bench::experiment::{measure, page};
use crate::bench::settings::Run;

fn settings() -> Settings {
    Settings {
        message_bytes: 64,
        messages_per_connection: 10,
        connections: 8,
        messages: 400,
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
        assert_eq!((case.cost.count, case.counted.connections), (400, 40));
        assert!(case.cost.per_host_core > 0.0, "{case:?}");
    }
    assert!(report.ratios.get("splice_vs_host") > Some(0.0));
    let spliced = report
        .cases
        .iter()
        .map(|case| case.counted.spliced.connections);
    assert_eq!(spliced.collect::<Vec<_>>(), [0, 40]);
    let json = serde_json::to_value(&report).expect("a report is plain data");
    assert!(json["ratios"]["splice_vs_host"].is_number());
    assert!(json["ratios"]["splice_vs_haproxy"].is_null());
}

#[test]
fn one_message_of_one_byte_and_messages_of_many_segments_arrive() {
    for (message_bytes, messages_per_connection) in [(1, 1), (100_000, 4)] {
        let report = measure(&Settings {
            message_bytes,
            messages_per_connection,
            messages: 24,
            connections: 3,
            ..settings()
        })
        .expect("the benchmark runs");
        assert!(report.verified);
    }
}

#[test]
fn haproxy_relays_the_same_messages_where_it_can_run() {
    let report = measure(&Settings {
        linux: true,
        ..settings()
    })
    .expect("the benchmark runs");
    assert!(report.verified);
    let row = report.cases.iter().find(|case| case.mode == Mode::Haproxy);
    match row {
        Some(row) => assert!(row.cost.per_host_core > 0.0),
        // Where it can't, the report says what to do.
        None => assert!(
            report.notes[0].contains("install it") || report.notes[0].contains("CAP_NET_ADMIN"),
            "{:?}",
            report.notes
        ),
    }
}

#[test]
fn the_report_fits_a_terminal_and_ends_in_its_conclusion() {
    let report = measure(&settings()).expect("the benchmark runs");
    crate::report::assert_concludes(
        &page(&settings(), &report),
        "as many messages per host cycle",
    );
}
