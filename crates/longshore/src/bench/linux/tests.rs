use std::collections::BTreeMap;

use super::bulk::{BulkCase, Carrier, FlowDirection};
use super::case::{Case, Counters, Mode, NicFigures, ratios};
use super::parts::share_out;
use super::settings::Settings;
use crate::bench::web::wrk::Latency;

#[derive(clap::Parser)]
struct Line {
    #[command(flatten)]
    settings: Settings,
}

fn case(mode: Mode, bytes_per_cpu_second: f64) -> Case {
    Case {
        mode,
        requests: 1,
        bytes: 1,
        worker_cpu_seconds: 1.0,
        bytes_per_cpu_second,
        requests_per_cpu_second: 1.0,
        nic_cpu_seconds_per_byte: 1.0,
        nic_gbit_per_core: bytes_per_cpu_second,
        nic_cycles_per_byte: 1.0,
        nic_parts: BTreeMap::new(),
        nic_memory_bytes: 5000,
        offloaded_share: 0.5,
        gbit_per_second: 1.0,
        latency_us: Latency::default(),
        rounds: vec![bytes_per_cpu_second],
        counters: Counters::new(),
    }
}

fn carried(carrier: Carrier, way: FlowDirection, gbit_per_core: f64) -> BulkCase {
    BulkCase {
        carrier,
        way,
        bytes: 1,
        gbit_per_second: 1.0,
        gbit_per_core,
        cycles_per_byte: 1.0,
        parts: BTreeMap::new(),
        rounds: vec![gbit_per_core],
    }
}

#[test]
fn a_figure_is_shared_out_by_the_time_of_each_part_awake() {
    let counters = [
        ("thread.wire_write_cycles", 300),
        ("thread.driver_cycles", 100),
        ("thread.asleep_cycles", 5000),
        ("wire.tx_packets", 7),
    ];
    let counters = counters.map(|(name, count)| (name.to_owned(), count));
    let parts = share_out(&Counters::from(counters), 2.0);
    let wanted = [("driver", 0.5), ("wire_write", 1.5)];
    assert_eq!(
        parts,
        BTreeMap::from(wanted.map(|(name, share)| (name.to_owned(), share)))
    );
    assert_eq!(share_out(&Counters::new(), 2.0), BTreeMap::new());
}

#[test]
fn ratios_are_of_the_cases_that_there_are() {
    let measured = ratios(&[case(Mode::Http, 9.0), case(Mode::Https, 1.5)]);
    assert_eq!(measured.get("https_vs_http"), Some(1.5 / 9.0));
    assert_eq!(measured.get("software_vs_https"), None);
    let measured = ratios(&[case(Mode::Https, 1.5), case(Mode::OffloadZc, 6.0)]);
    assert_eq!(measured.get("offload_zc_vs_https"), Some(4.0));
    assert_eq!(measured.get("offload_zc_vs_http"), None);
}

#[test]
fn the_nic_is_judged_by_what_it_forwards_and_by_what_it_encrypts() {
    let cases = [
        case(Mode::Http, 30.0),
        case(Mode::Https, 29.0),
        case(Mode::OffloadZc, 20.0),
    ];
    let bulk = [
        carried(Carrier::Nic, FlowDirection::In, 20.0),
        carried(Carrier::Nic, FlowDirection::Out, 25.0),
        carried(Carrier::BareForwarder, FlowDirection::Out, 28.0),
    ];
    let figures = NicFigures::of((&cases, &bulk), 4, 1000);
    assert_eq!(figures.plain_gbit_per_core, 25.0);
    assert_eq!(figures.bare_forwarder_gbit_per_core, 28.0);
    assert_eq!(figures.http_gbit_per_core, Some(30.0));
    assert_eq!(figures.encrypted_gbit_per_core, Some(20.0));
    assert_eq!(figures.memory_per_connection_bytes, Some(1000));
    let figures = NicFigures::of((&cases[..2], &bulk), 4, 1000);
    assert_eq!(figures.encrypted_gbit_per_core, None);
    assert_eq!(figures.memory_per_connection_bytes, None);
}

#[test]
fn an_offload_that_did_not_happen_is_told() {
    assert_eq!(case(Mode::Software, 1.0).note(), None);
    let note = case(Mode::Offload, 1.0).note().expect("half of it only");
    assert!(note.contains("50.0 %"), "{note}");
    let whole = Case {
        offloaded_share: 0.99,
        ..case(Mode::OffloadZc, 1.0)
    };
    assert_eq!(whole.note(), None);
}
