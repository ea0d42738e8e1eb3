//! What is counted, from the end of the warm-up on.

use std::time::Duration;

use super::Pico;
use crate::handoff::costs::HostCosts;
use crate::handoff::{Outcome, Run, Sample};

/// Time between two samples of the load control.
const SAMPLE: Pico = 2_000_000_000;

/// Cycles of the host by where they go.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cycles {
    pub stack: u64,
    pub system: u64,
    pub user: u64,
}

impl Cycles {
    pub fn all(&self) -> u64 {
        self.stack + self.system + self.user
    }
}

#[derive(Debug)]
pub(super) struct Measure {
    run: Run,
    /// All packets so far, with the warm-up.
    pub packets: u64,
    /// When the warm-up was over.
    start: Option<Pico>,
    nic_packets: u64,
    cycles: Cycles,
    nic_busy: Pico,
    delays_rx: Vec<Pico>,
    delays_tx: Vec<Pico>,
    response_time: Pico,
    response_bytes: u64,
    ended: u64,
    ended_on_nic: u64,
    next_sample: Pico,
    pub outcome: Outcome,
}

impl Measure {
    pub fn new(run: Run) -> Self {
        Self {
            run,
            packets: 0,
            start: None,
            nic_packets: 0,
            cycles: Cycles::default(),
            nic_busy: 0,
            delays_rx: Vec::new(),
            delays_tx: Vec::new(),
            response_time: 0,
            response_bytes: 0,
            ended: 0,
            ended_on_nic: 0,
            next_sample: 0,
            outcome: Outcome::default(),
        }
    }

    fn counts(&self) -> bool {
        self.start.is_some()
    }

    /// A packet was taken from the wire, or given to it.
    pub fn packet(&mut self, now: Pico, on_nic: bool) {
        self.packets += 1;
        if self.packets > self.run.warm_up && self.start.is_none() {
            self.start = Some(now);
        }
        if self.counts() {
            self.outcome.packets += 1;
            self.nic_packets += u64::from(on_nic);
        }
    }

    pub fn host_received(&mut self, took: Pico) {
        if self.counts() {
            self.delays_rx.push(took);
        }
    }

    pub fn host_sent(&mut self, took: Pico) {
        if self.counts() {
            self.delays_tx.push(took);
        }
    }

    pub fn host_worked(&mut self, cycles: Cycles) {
        if self.counts() {
            self.cycles.stack += cycles.stack;
            self.cycles.system += cycles.system;
            self.cycles.user += cycles.user;
        }
    }

    pub fn nic_worked(&mut self, time: Pico) {
        if self.counts() {
            self.nic_busy += time;
        }
    }

    /// A client has got bytes of a response.
    pub fn received(&mut self, bytes: u32) {
        if self.counts() {
            self.response_bytes += u64::from(bytes);
        }
    }

    /// A client has got all of a response.
    pub fn answered(&mut self, took: Pico) {
        if self.counts() {
            self.outcome.requests += 1;
            self.response_time += took;
        }
    }

    pub fn established(&mut self) {
        self.outcome.connections += u64::from(self.counts());
    }

    pub fn ended(&mut self, was_on_nic: bool) {
        if self.counts() {
            self.ended += 1;
            self.ended_on_nic += u64::from(was_on_nic);
        }
    }

    pub fn dropped(&mut self) {
        self.outcome.dropped += u64::from(self.counts());
    }

    pub fn handed_off(&mut self) {
        self.outcome.handoffs += u64::from(self.counts());
    }

    pub fn restored(&mut self) {
        self.outcome.restores += u64::from(self.counts());
    }

    pub fn refused(&mut self) {
        self.outcome.refused += u64::from(self.counts());
    }

    pub fn wants_sample(&self, now: Pico) -> bool {
        now >= self.next_sample
    }

    pub fn sample(&mut self, now: Pico, soft_limit: u32, cnum: u32, qlen: u32) {
        self.next_sample = now - now % SAMPLE + SAMPLE;
        self.outcome.timeline.push(Sample {
            t: Duration::from_nanos(now / 1000),
            soft_limit,
            cnum,
            qlen,
        });
    }

    pub fn finish(&mut self, now: Pico, host: &HostCosts) -> Outcome {
        let span = now - self.start.unwrap_or(now);
        let seconds = span.max(1) as f64 / 1e12;
        let per_second = |count: u64| count as f64 / seconds;
        let cycles = host.hertz as f64 * seconds;
        let of_cycles = |count: u64| (count as f64 / cycles).min(1.0);
        let mut outcome = std::mem::take(&mut self.outcome);
        outcome.requests_per_second = per_second(outcome.requests);
        outcome.packets_per_second = per_second(outcome.packets);
        outcome.connections_per_second = per_second(outcome.connections);
        outcome.http_mbps = per_second(self.response_bytes * 8) / 1e6;
        outcome.host_user = of_cycles(self.cycles.user);
        outcome.host_os = of_cycles(self.cycles.stack + self.cycles.system);
        outcome.host_stack = of_cycles(self.cycles.stack);
        outcome.host_idle = 1.0 - of_cycles(self.cycles.all());
        outcome.nic_idle = 1.0 - (self.nic_busy as f64 / span.max(1) as f64).min(1.0);
        outcome.nic_connection_share = self.ended_on_nic as f64 / self.ended.max(1) as f64;
        outcome.nic_packet_share = self.nic_packets as f64 / outcome.packets.max(1) as f64;
        (outcome.host_delay_mean_rx, outcome.host_delay_median_rx) = delays(&mut self.delays_rx);
        (outcome.host_delay_mean_tx, outcome.host_delay_median_tx) = delays(&mut self.delays_tx);
        outcome.response_time_mean = span_of(self.response_time / outcome.requests.max(1));
        outcome.measured = span_of(span);
        outcome
    }
}

/// Mean and median.
fn delays(delays: &mut [Pico]) -> (Duration, Duration) {
    if delays.is_empty() {
        return Default::default();
    }
    let mean = delays.iter().sum::<Pico>() / delays.len() as Pico;
    let middle = delays.len() / 2;
    let (_, median, _) = delays.select_nth_unstable(middle);
    (span_of(mean), span_of(*median))
}

fn span_of(picos: Pico) -> Duration {
    Duration::from_nanos(picos / 1000)
}
