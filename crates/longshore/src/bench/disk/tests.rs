use super::case::{Io, Stage};
use super::settings::{Digest, Workload};
use super::*;
use crate::bench::experiment::{measure, page};
use crate::bench::settings::{Faults, Run};

fn workload() -> Workload {
    Workload {
        io_bytes: 65_536,
        depth: 8,
        read: false,
        write: false,
        faults: Faults::default(),
        latency: false,
        bytes: 2 << 20,
        working_set: 2 << 20,
        seed: 3,
        run: Run::quiet(1),
    }
}

fn settings<P: Protocol>() -> Settings<P> {
    Settings::new(&workload(), None, false)
}

#[test]
fn every_mode_has_a_row_and_every_byte_is_verified() {
    let report = measure(&settings::<NvmeTcp>()).expect("the benchmark runs");
    assert!(report.verified);
    let stages = |io, digest, tls| -> Vec<Stage> {
        let cases = report.cases.iter().map(|case| case.mode);
        cases
            .filter(|mode| mode.io == io && mode.digest == digest && mode.tls == tls)
            .map(|mode| mode.stage)
            .collect()
    };
    use Stage::{Copy, Crc, Software, Tls};
    assert_eq!(stages(Io::Read, Digest::None, false), [Software, Copy]);
    assert_eq!(stages(Io::Read, Digest::Data, false), [Software, Copy, Crc]);
    assert_eq!(stages(Io::Write, Digest::Data, false), [Software, Crc]);
    assert_eq!(
        stages(Io::Read, Digest::Data, true),
        [Software, Tls, Copy, Crc]
    );
    assert_eq!(stages(Io::Write, Digest::Data, true), [Software, Tls, Crc]);
    for case in &report.cases {
        assert!(case.cost.per_host_core > 0.0, "{case:?}");
        assert_eq!(case.cost.count, 2 << 20);
    }
    for key in [
        "read_ddp_vs_software",
        "read_ddp_crc_vs_software",
        "write_crc_vs_software",
        "nvme_tls_vs_software",
    ] {
        assert!(report.ratios.get(key) > Some(0.0), "{:?}", report.ratios);
    }
}

#[test]
fn the_settings_choose_the_modes() {
    let chosen = |settings: &Settings<NvmeTcp>| case::Mode::of(settings);
    let mut reads = settings();
    reads.only_digest = Some(Digest::None);
    reads.workload.read = true;
    assert_eq!(chosen(&reads).len(), 2 + 3);
    let mut in_tls = settings();
    in_tls.tls = true;
    in_tls.workload.write = true;
    assert!(
        chosen(&in_tls)
            .iter()
            .all(|mode| mode.tls && mode.io == Io::Write)
    );
}

#[test]
fn the_report_fits_a_terminal_and_ends_in_its_conclusion() {
    let mut settings = settings::<NvmeTcp>();
    settings.workload.latency = true;
    let report = measure(&settings).expect("the benchmark runs");
    crate::report::assert_concludes(
        &page(&settings, &report),
        "Bytes per host cycle with all offloads",
    );
}

/// Stages by direction and digest, and whether the NIC did what they say.
fn check<P: Protocol>(expected: &[(Io, Digest, &[Stage])]) {
    let report = measure(&settings::<P>()).expect("the benchmark runs");
    assert!(report.verified);
    let mut cases = report.cases.iter();
    for (io, digest, stages) in expected {
        for stage in *stages {
            let case = cases.next().expect("a row");
            let mode = case.mode;
            assert_eq!((mode.io, mode.digest, mode.stage), (*io, *digest, *stage));
            let places = *io == Io::Read && *stage >= Stage::Copy;
            let placed = if places { case.cost.count } else { 0 };
            assert_eq!(case.counted.offloaded.placed_bytes, placed, "{mode:?}");
            let checks = *io == Io::Read && *stage >= Stage::Crc;
            assert!(
                !checks || case.counted.offloaded.digest_packets > 0,
                "{mode:?}"
            );
        }
    }
    assert!(cases.next().is_none());
}

#[test]
fn nbd_and_iscsi_have_the_rows_that_they_can_have() {
    use Stage::{Copy, Crc, Software};
    check::<remote::Nbd>(&[
        (Io::Read, Digest::None, &[Software, Copy]),
        (Io::Write, Digest::None, &[Software]),
    ]);
    check::<remote::Iscsi>(&[
        (Io::Read, Digest::None, &[Software, Copy]),
        (Io::Read, Digest::Data, &[Software, Copy, Crc]),
        (Io::Write, Digest::Data, &[Software, Crc]),
    ]);
}
