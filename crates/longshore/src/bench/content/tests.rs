use super::case::Mode;
use super::settings::Settings;
use crate::bench::experiment::{measure, page};
use crate::bench::settings::Run;

fn settings() -> Settings {
    Settings {
        bytes: 500_000,
        patterns: 16,
        loss: 0.0,
        seed: 3,
        run: Run::quiet(1),
    }
}

#[test]
fn every_mode_has_a_row_and_the_nic_does_its_part() {
    let report = measure(&settings()).expect("the benchmark runs");
    assert!(report.verified);
    let modes: Vec<Mode> = report.cases.iter().map(|case| case.mode).collect();
    assert_eq!(modes, Mode::all().collect::<Vec<_>>());
    for case in &report.cases {
        let done = case.counted.done;
        assert_eq!(done.by_nic + done.by_software, 500_000, "{case:?}");
        match case.mode.by_nic {
            true => assert!(done.by_nic > 20 * done.by_software, "{case:?}"),
            false => assert_eq!(done.by_nic, 0, "{case:?}"),
        }
    }
    assert_eq!(report.figures.ratios.len(), 6);
    let json = serde_json::to_value(&report).expect("a report is plain data");
    assert!(json["ratios"][0]["nic_vs_software"].is_number());
}

#[test]
fn what_is_lost_is_done_by_software() {
    let report = measure(&Settings {
        loss: 0.01,
        ..settings()
    })
    .expect("the benchmark runs");
    assert!(report.verified);
}

#[test]
fn the_report_fits_a_terminal_and_ends_in_its_conclusion() {
    let report = measure(&settings()).expect("the benchmark runs");
    crate::report::assert_concludes(&page(&settings(), &report), "over that where software does");
}
