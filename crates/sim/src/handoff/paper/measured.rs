//! What a run has measured, in the paper's units.

use std::time::Duration;

use super::Measure;
use crate::handoff::{Outcome, Sample};

impl Measure {
    /// This measure of a run.
    pub fn of(self, outcome: &Outcome) -> f64 {
        let micros = |delay: Duration| delay.as_secs_f64() * 1e6;
        match self {
            Self::Requests => outcome.requests_per_second,
            Self::Packets => outcome.packets_per_second,
            Self::Connections => outcome.connections_per_second,
            Self::Http => outcome.http_mbps,
            Self::HostIdle => 100.0 * outcome.host_idle,
            Self::HostKernel => 100.0 * outcome.host_os,
            Self::HostStack => 100.0 * outcome.host_stack,
            Self::NicIdle => 100.0 * outcome.nic_idle,
            Self::NicConnections => 100.0 * outcome.nic_connection_share,
            Self::NicPackets => 100.0 * outcome.nic_packet_share,
            Self::SendDelay => micros(outcome.host_delay_median_tx),
            Self::ReceiveDelay => micros(outcome.host_delay_median_rx),
            // Both ways count: the longer one.
            Self::MeanDelay => micros(outcome.host_delay_mean_tx.max(outcome.host_delay_mean_rx)),
            Self::ResponseTime => outcome.response_time_mean.as_secs_f64() * 1e3,
            Self::HeldAtFirst => f64::from(most(&outcome.timeline, |sample| sample.cnum)),
            Self::Held => {
                let held = settled(&outcome.timeline).map(|sample| f64::from(sample.cnum));
                held.clone().sum::<f64>() / (held.count().max(1) as f64)
            }
            Self::Queue => {
                let queue = settled(&outcome.timeline).map(|sample| sample.qlen);
                let mut queue: Vec<u32> = queue.collect();
                queue.sort_unstable();
                let nine_of_ten = queue.get(queue.len() * 9 / 10);
                f64::from(nine_of_ten.copied().unwrap_or(0))
            }
        }
    }
}

/// The second half of a run.
fn settled(timeline: &[Sample]) -> impl Iterator<Item = &Sample> + Clone {
    timeline[timeline.len() / 2..].iter()
}

fn most(timeline: &[Sample], of: impl Fn(&Sample) -> u32) -> u32 {
    timeline.iter().map(of).max().unwrap_or(0)
}
