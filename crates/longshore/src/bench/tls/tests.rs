use super::*;
use crate::bench::experiment::{measure, page};
use crate::bench::settings::{Faults, Layout, Run};

fn settings() -> Settings {
    Settings {
        record_bytes: 4096,
        message_bytes: 20_000,
        bytes: 1 << 20,
        connections: 3,
        faults: Faults::default(),
        seed: 5,
        run: Run::quiet(2),
        linux: false,
    }
}

#[test]
fn every_direction_and_mode_has_a_row_and_every_byte_is_verified() {
    let report = measure(&settings()).expect("the benchmark runs");
    assert!(report.verified);
    assert_eq!(report.cases.len(), 10);
    for case in &report.cases {
        assert!(case.cost.per_host_core > 0.0, "{case:?}");
        assert!(case.cost.count >= 1 << 20);
        assert_eq!(case.rounds.len(), 2);
    }
    assert!(report.ratios.get("tx_offload_vs_software") > Some(0.0));
    assert!(report.ratios.get("tx_offload_vs_linux").is_none());
    let records = report.figures.records;
    assert!(records.full > 0 && records.none == 0, "{records:?}");
}

#[test]
fn equal_seeds_give_equal_records_and_retransmissions() {
    let lossy = Settings {
        faults: Faults {
            loss: 0.02,
            reorder: 0.02,
        },
        run: Run::quiet(1),
        ..settings()
    };
    let [first, second] = [(); 2].map(|()| measure(&lossy).expect("the benchmark runs"));
    for (a, b) in first.cases.iter().zip(&second.cases) {
        assert_eq!(a.counted, b.counted, "{:?}", a.mode);
    }
    assert!(first.verified && second.verified);
    assert!(
        first
            .cases
            .iter()
            .any(|case| case.counted.retransmitted_bytes > 0)
    );
}

#[test]
fn both_layouts_send_the_same_packets() {
    let lossy = Settings {
        faults: Faults {
            loss: 0.02,
            ..Faults::default()
        },
        run: Run::quiet(1),
        ..settings()
    };
    let two = Settings {
        run: Run {
            layout: Layout::TwoThreads,
            ..Run::quiet(1)
        },
        ..lossy.clone()
    };
    let [first, second] =
        [lossy, two].map(|settings| measure(&settings).expect("the benchmark runs"));
    for (a, b) in first.cases.iter().zip(&second.cases) {
        let (a, b, mode) = (&a.counted, &b.counted, a.mode);
        assert_eq!(a.pcie_bytes, b.pcie_bytes, "{mode:?}");
        assert_eq!(a.records, b.records);
    }
}

#[test]
fn the_json_has_the_documented_keys() {
    let report = measure(&Settings {
        run: Run::quiet(1),
        ..settings()
    })
    .expect("the benchmark runs");
    let json = serde_json::to_value(&report).expect("a report is plain data");
    for key in ["cases", "ratios", "records", "bytes_verified"] {
        assert!(!json[key].is_null(), "{key}");
    }
    for key in [
        "tx_offload_vs_software",
        "tx_offload_vs_plain",
        "tx_zerocopy_vs_software",
        "rx_offload_vs_software",
        "rx_offload_vs_plain",
    ] {
        assert!(json["ratios"][key].is_number(), "{key}");
    }
    for key in ["full", "partial", "none"] {
        assert!(json["records"][key].is_number(), "{key}");
    }
}

#[test]
fn the_report_fits_a_terminal_and_ends_in_its_conclusion() {
    let report = measure(&settings()).expect("the benchmark runs");
    crate::report::assert_concludes(
        &page(&settings(), &report),
        "as many bytes per host cycle as software TLS",
    );
}
