use super::case::{Mode, Workload};
use super::settings::Settings;
use crate::bench::experiment::{measure, page};
use crate::bench::settings::Run;

fn settings() -> Settings {
    Settings {
        cores: vec![1, 3],
        workloads: vec![Workload::Connections, Workload::Requests, Workload::Tls],
        connections: 20,
        transactions: 320,
        seed: 3,
        run: Run::quiet(1),
    }
}

#[test]
fn every_workload_is_done_on_each_number_of_cores_and_every_byte_is_verified() {
    let report = measure(&settings()).expect("the benchmark runs");
    assert!(report.verified);
    let counts = report.cases.iter().map(|case| (case.mode, case.cost.count));
    let expected = [
        (Workload::Connections, 320),
        (Workload::Requests, 320),
        (Workload::Tls, 40),
    ];
    let expected = expected.into_iter().flat_map(|(workload, count)| {
        [1, 3].map(|cores| (Mode { workload, cores }, count * u64::from(cores)))
    });
    assert!(counts.eq(expected), "{:?}", report.cases);
    for case in &report.cases {
        assert!(
            case.cost.host.total > 0.0 && case.cost.nic.total > 0.0,
            "{case:?}"
        );
        assert!(case.cost.nic.receive > 0.0, "{case:?}");
        let most = case.counted.most_over_share;
        let cores = f64::from(case.mode.cores);
        assert!((1.0..cores.max(1.5)).contains(&most), "{case:?}");
    }
}

#[test]
fn each_number_of_cores_is_compared_with_the_first_one() {
    let report = measure(&Settings {
        workloads: vec![Workload::Connections],
        cores: vec![2, 1, 3],
        ..settings()
    })
    .expect("the benchmark runs");
    let scaling = &report.figures.scaling;
    let compared = scaling.iter().map(|it| (it.cores, it.over));
    assert!(compared.eq([(1, 2), (3, 2)]), "{scaling:?}");
    assert!(scaling.iter().all(|it| it.both > 0.0), "{scaling:?}");
    crate::report::assert_concludes(&page(&settings(), &report), "cycles per transaction");
}
