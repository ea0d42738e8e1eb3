//! The shapes of the results of "Connection handoff policies": what handoff without policies loses, and what each policy gains.

use std::collections::BTreeMap;
use std::time::Duration;

use sim::handoff::{Config, Costs, Outcome, Run, run, run_with};

/// The outcomes of configurations, by the shorthand of the seed's Table 3, on two threads.
fn outcomes<const N: usize>(configs: [&'static str; N]) -> BTreeMap<&'static str, Outcome> {
    let halves = [configs[..N / 2].to_vec(), configs[N / 2..].to_vec()];
    let threads = halves.map(|half| {
        std::thread::spawn(move || {
            let run = |text: &'static str| (text, run(&text.parse().unwrap(), |_, _| {}));
            half.into_iter().map(run).collect::<Vec<_>>()
        })
    });
    threads
        .into_iter()
        .flat_map(|thread| thread.join().unwrap())
        .collect()
}

const W_0: &str = "W-0-N-N-FCFS-400";

fn mean_delay(outcome: &Outcome) -> Duration {
    (outcome.host_delay_mean_rx + outcome.host_delay_mean_tx) / 2
}

#[test]
fn handoff_without_policies_loses_and_host_first_recovers() {
    let naive = "W-1024-N-N-FCFS-400";
    let first = "W-1024-P-N-FCFS-400";
    let all = outcomes([W_0, naive, first]);
    let gain = |config: &str| all[config].requests_per_second / all[W_0].requests_per_second;
    assert!((0.56..0.86).contains(&gain(naive)), "{}", gain(naive));
    assert!((1.08..1.24).contains(&gain(first)), "{}", gain(first));
    // Connection handoff policies §5.1: less than 10 µs, more than a millisecond, less than 13 µs.
    assert!(mean_delay(&all[W_0]) < Duration::from_micros(10));
    assert!(mean_delay(&all[naive]) > Duration::from_millis(1));
    assert!(mean_delay(&all[first]) < Duration::from_micros(13));
    assert!(all[naive].host_idle > 0.3 && all[first].host_idle < 0.01);
}

#[test]
fn too_many_connections_saturate_the_nic_unless_load_is_controlled() {
    let full = "W-4096-P-N-FCFS-400";
    let controlled = "W-4096-P-L-FCFS-400";
    let faster = "W-4096-P-L-FCFS-800";
    let all = outcomes([W_0, full, controlled, faster]);
    let gain = |config: &str| all[config].requests_per_second / all[W_0].requests_per_second;
    assert!(gain(full) < 0.86, "{}", gain(full));
    assert!(all[full].nic_idle < 0.02 && all[full].host_idle > 0.4);
    assert!(
        (1.10..1.31).contains(&gain(controlled)),
        "{}",
        gain(controlled)
    );
    assert!((1.33..1.72).contains(&gain(faster)), "{}", gain(faster));
    // Figure 6: all are handed off at first, and the limit comes down until the queue stays short. A client has one connection.
    let timeline = &all[controlled].timeline;
    let most = timeline.iter().map(|sample| sample.cnum).max();
    assert!(most.is_some_and(|most| (1800..=2048).contains(&most)));
    let settled = &timeline[timeline.len() / 2..];
    let mean = |value: fn(&sim::handoff::Sample) -> u32| {
        settled
            .iter()
            .map(|sample| f64::from(value(sample)))
            .sum::<f64>()
            / settled.len() as f64
    };
    assert!((600.0..1500.0).contains(&mean(|sample| sample.cnum)));
    assert!(mean(|sample| sample.qlen) < 1024.0);
}

#[test]
fn a_small_nic_gains_by_selection_and_most_by_prediction() {
    let fcfs = "W-256-P-L-FCFS-400";
    let threshold = "W-256-P-L-T20-400";
    let predict = "W-256-P-L-PREDICT-400";
    let all = outcomes([fcfs, threshold, predict]);
    let rate = |config: &str| all[config].requests_per_second;
    assert!(rate(threshold) > 1.02 * rate(fcfs));
    assert!(rate(predict) >= 1.06 * rate(threshold));
    assert!(all[predict].nic_packet_share > 1.5 * all[threshold].nic_packet_share);
}

/// Table 1, Figures 5 and 8: packets over requests, and what each of the other workloads gains.
#[test]
fn every_workload_gains_with_host_first_and_load_control() {
    let half = Run {
        warm_up: 300_000,
        measured: 300_000,
    };
    let costs = Costs::default();
    let go = |text: &str| run_with(&text.parse().unwrap(), &costs, half, &mut |_, _| {});
    for (workload, packets, gains, faster) in [
        ('I', 10.4, 1.12..1.31, 1.33..1.72),
        ('S', 25.9, 1.12..1.31, 1.33..1.72),
        ('D', 27.2, 1.20..1.36, 1.24..1.45),
    ] {
        let base = go(&format!("{workload}-0-N-N-FCFS-400"));
        let ratio = base.packets_per_second / base.requests_per_second / packets;
        assert!(
            (0.9..1.1).contains(&ratio),
            "{workload}: packets per request are {ratio} of those published"
        );
        let gain = |text: &str| {
            let with = go(&format!("{workload}-4096-P-L-FCFS-{text}"));
            with.requests_per_second / base.requests_per_second
        };
        let (slow, fast) = (gain("400"), gain("800"));
        assert!(gains.contains(&slow), "{workload} at 400 MIPS: {slow}");
        assert!(faster.contains(&fast), "{workload} at 800 MIPS: {fast}");
    }
}

#[test]
fn a_run_repeats_from_its_seed() {
    let short = Run {
        warm_up: 20_000,
        measured: 30_000,
    };
    let config: Config = "S-2048-P-L-PREDICT-600".parse().unwrap();
    let costs = Costs::default();
    let go = |config: &Config| run_with(config, &costs, short, &mut |_, _| {});
    assert_eq!(go(&config), go(&config));
    let other = Config { seed: 2, ..config };
    assert_ne!(go(&config), go(&other));
}

#[test]
fn active_restore_gives_connections_back() {
    let short = Run {
        warm_up: 100_000,
        measured: 200_000,
    };
    let config: Config = "W-4096-P-L-FCFS-400".parse().unwrap();
    let active = Config {
        active_restore: true,
        ..config
    };
    let costs = Costs::default();
    let go = |config: &Config| run_with(config, &costs, short, &mut |_, _| {});
    let (passive, active) = (go(&config), go(&active));
    assert!(passive.restores == 0 && active.timeline.len() > 10);
    let longest = |outcome: &Outcome| outcome.timeline.iter().map(|sample| sample.qlen).max();
    assert!(
        longest(&active) < longest(&passive),
        "the overload ends sooner"
    );
}
