//! A row of a report, and how rows compare.

use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};

use super::cycles::{HostCycles, NicCycles, Taken, cycles_per, per_host_core};
use super::latency::Latency;
use super::tap::Measured;

/// A way to do the work that is measured.
pub trait Mode: Copy + PartialEq + Serialize {
    /// For tables and plots.
    fn label(&self) -> String;

    /// This mode compared with another one.
    fn over_label(&self, second: &Self) -> String {
        format!("{} over {}", self.label(), second.label())
    }

    /// Whether it is measured in every run.
    fn is_ours(&self) -> bool {
        true
    }
}

/// What cycles are counted by.
#[derive(Clone, Copy, Debug)]
pub struct Unit {
    /// One of it, as `byte`.
    pub one: &'static str,
    /// What a core of the host does in a second, as JSON names it.
    per_host_core: &'static str,
    /// What that is multiplied by.
    scale: f64,
}

impl Unit {
    /// Bytes of payload; a core's rate is in Gbit/s.
    pub const BYTE: Self = Self {
        one: "byte",
        per_host_core: "gbit_per_host_core",
        scale: 8e-9,
    };

    /// Things of that name; JSON names a core's rate `per_host_core`.
    pub const fn of(one: &'static str, per_host_core: &'static str) -> Self {
        Self {
            one,
            per_host_core,
            scale: 1.0,
        }
    }
}

/// What a round of a mode came to.
#[derive(Clone, Debug)]
pub struct Round<C> {
    /// What cycles are counted by: transactions, messages, requests.
    pub count: u64,
    /// Cycles of the host that is measured, and of its NIC.
    pub taken: Taken,
    /// What else was counted.
    pub counted: C,
    /// Whether every byte until now was the right one.
    pub verified: bool,
}

impl<C> Round<C> {
    /// What Linux took. There is no telling its parts from each other.
    pub fn of_linux(count: u64, measured: Measured, counted: C) -> Self {
        let host = measured.cycles as u64;
        Self {
            count,
            taken: Taken {
                host,
                tcp: host,
                ..Taken::default()
            },
            counted,
            verified: measured.verified,
        }
    }

    fn host_cycles(&self) -> f64 {
        self.taken.host as f64 / self.count as f64
    }
}

/// What one of a unit costs.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    unit: Unit,
    /// How many there were in a round.
    pub count: u64,
    /// Cycles of the host, by component.
    pub host: HostCycles,
    /// Cycles of its NIC.
    pub nic: NicCycles,
    /// What a core of the host does in a second that does nothing else, at the machine's clock.
    pub per_host_core: f64,
}

impl Serialize for Cost {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let one = self.unit.one;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry(&format!("{one}s"), &self.count)?;
        map.serialize_entry(&format!("host_cycles_per_{one}"), &self.host)?;
        map.serialize_entry(&format!("nic_cycles_per_{one}"), &self.nic)?;
        map.serialize_entry(self.unit.per_host_core, &self.per_host_core)?;
        map.end()
    }
}

/// One row: all of one round, but for the spread.
#[derive(Clone, Debug, Serialize)]
pub struct Case<M, C> {
    /// How the work was done.
    #[serde(flatten)]
    pub mode: M,
    /// What it took.
    #[serde(flatten)]
    pub cost: Cost,
    /// Host cycles of each round, to judge the spread.
    pub rounds: Vec<f64>,
    /// What else was counted.
    #[serde(flatten)]
    pub counted: C,
    /// Whether every byte was the right one.
    #[serde(skip)]
    pub verified: bool,
    /// From requests to responses, where that was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_us: Option<Latency>,
}

impl<M, C> Case<M, C> {
    /// The row of a mode: the round with the median of host cycles stands for all.
    ///
    /// # Panics
    /// When there are no rounds.
    pub fn median(unit: Unit, mode: M, mut rounds: Vec<Round<C>>) -> Self {
        let each = rounds.iter().map(Round::host_cycles).collect();
        let verified = rounds.iter().all(|round| round.verified);
        rounds.sort_by(|a, b| a.host_cycles().total_cmp(&b.host_cycles()));
        let round = rounds.swap_remove(rounds.len() / 2);
        let (host, nic) = cycles_per(&round.taken, round.count);
        Self {
            mode,
            cost: Cost {
                unit,
                count: round.count,
                host,
                nic,
                per_host_core: per_host_core(host.total) * unit.scale,
            },
            rounds: each,
            counted: round.counted,
            verified,
            latency_us: None,
        }
    }
}

/// What a host core does in the first mode, over what it does in the second; `None` where one of them was not measured.
pub fn over<M: PartialEq, C>(cases: &[Case<M, C>], first: M, second: M) -> Option<f64> {
    let rate = |mode| {
        let found = cases.iter().find(|case| case.mode == mode)?;
        Some(found.cost.per_host_core)
    };
    let (first, second) = (rate(first)?, rate(second)?);
    (second > 0.0).then_some(first / second)
}
