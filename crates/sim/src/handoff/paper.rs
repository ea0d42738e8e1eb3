//! What "Connection handoff policies" has published: every number of its Table 1 and of Figures 5 to 8 that its text still gives, where it stands, and how
//! another number is judged by it.
//!
//! The bars of Figures 5 and 7 have no numbers of their own; their rows are what §5 says of them. The bars of Figure 8 have.

mod figures;
mod measured;
mod table;

#[cfg(test)]
mod tests;

use std::fmt;

use super::Config;

/// A table or a figure of the paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Figure {
    /// Impact of a heavily loaded NIC.
    Table1,
    /// Impact of host first packet processing and load control.
    Figure5,
    /// Load control over time.
    Figure6,
    /// Connection selection.
    Figure7,
    /// Instruction rate of the NIC.
    Figure8,
    /// Response times, which are in no figure.
    ResponseTimes,
}

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Measure {
    /// Requests per second that clients see answered.
    Requests,
    /// Packets per second, both ways.
    Packets,
    /// Connections per second.
    Connections,
    /// Mbit/s of responses.
    Http,
    /// Percent of the host's cycles.
    HostIdle,
    /// Percent of the host's cycles in the kernel.
    HostKernel,
    /// Percent of the host's cycles in the network stack below system calls.
    HostStack,
    /// Percent of the NIC's cycles.
    NicIdle,
    /// Percent of connections that are handed off.
    NicConnections,
    /// Percent of packets that the NIC consumes and generates.
    NicPackets,
    /// Median time that a host packet takes to cross the NIC to the wire, µs.
    SendDelay,
    /// Median time that a host packet takes to cross the NIC to the host, µs.
    ReceiveDelay,
    /// Mean time that a host packet takes to cross the NIC, µs.
    MeanDelay,
    /// Mean time from a request to the end of its response, ms.
    ResponseTime,
    /// Connections on the NIC at most.
    HeldAtFirst,
    /// Connections on the NIC once their number has settled.
    Held,
    /// Receive queue of NIC packets, once the number of connections has settled.
    Queue,
}

/// A published number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Published {
    /// A value; with one of another configuration, what is judged is the change from that one to it.
    Value {
        /// The value.
        value: f64,
        /// The other configuration, and its published value.
        from: Option<(&'static str, f64)>,
    },
    /// A change, in the [unit of changes](Measure::unit_of_change).
    Change {
        /// The configuration from which it is.
        from: &'static str,
        /// How much.
        change: f64,
    },
    /// A change within bounds.
    ChangeBetween {
        /// The configuration from which it is.
        from: &'static str,
        /// At least.
        low: f64,
        /// At most.
        high: f64,
    },
    /// A value within bounds.
    Between {
        /// At least.
        low: f64,
        /// At most; may be infinite.
        high: f64,
    },
}

/// One published number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Row {
    /// What it belongs to.
    pub figure: Figure,
    /// The configuration, in the paper's shorthand.
    pub config: &'static str,
    /// What was measured.
    pub measure: Measure,
    /// What came of it.
    pub published: Published,
    /// Where in the paper it stands.
    pub source: &'static str,
}

/// Another number beside a published one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Judgement {
    /// The value, as [`Row::judge`] was given it.
    pub ours: f64,
    /// Its change, where one is published, in the [unit of changes](Measure::unit_of_change).
    pub our_change: Option<f64>,
    /// Whether it agrees.
    pub agrees: bool,
}

/// Share of the published change by which ours may differ.
pub const TOLERANCE: f64 = 0.15;

/// All published numbers, by figures.
pub fn rows() -> impl Iterator<Item = &'static Row> {
    table::TABLE_1
        .iter()
        .chain(figures::FIGURE_5)
        .chain(figures::FIGURE_6)
        .chain(figures::FIGURE_7)
        .chain(figures::FIGURE_8)
        .chain(figures::RESPONSE_TIMES)
}

/// The configurations of all rows, of those that changes are from, and of bars without a number; each once, by figures.
pub fn configs() -> Vec<Config> {
    let mut all = Vec::new();
    let of_rows = rows().flat_map(|row| [Some(row.config), row.published.from()]);
    for name in of_rows.flatten().chain(figures::WITHOUT_NUMBERS) {
        let config = name.parse().expect("the shorthand of the paper's Table 3");
        if !all.contains(&config) {
            all.push(config);
        }
    }
    all
}

impl Published {
    /// The configuration from which a change is.
    pub fn from(&self) -> Option<&'static str> {
        match *self {
            Self::Value { from, .. } => from.map(|(config, _)| config),
            Self::Change { from, .. } | Self::ChangeBetween { from, .. } => Some(from),
            Self::Between { .. } => None,
        }
    }
}

impl Measure {
    /// Whether it is a percentage, of which a change is counted in points.
    pub fn is_percentage(self) -> bool {
        matches!(
            self,
            Self::HostIdle
                | Self::HostKernel
                | Self::HostStack
                | Self::NicIdle
                | Self::NicConnections
                | Self::NicPackets
        )
    }

    /// The unit in which changes are counted: points of a percentage; microseconds of what is a few of them or a thousand; else
    /// percent.
    pub fn unit_of_change(self) -> &'static str {
        match self {
            _ if self.is_percentage() => "pt",
            Self::SendDelay | Self::ReceiveDelay | Self::MeanDelay => "µs",
            _ => "%",
        }
    }

    /// The change from one value to another.
    pub fn change(self, from: f64, to: f64) -> f64 {
        match self.unit_of_change() {
            "%" if from == to => 0.0,
            "%" => 100.0 * (to / from - 1.0),
            _ => to - from,
        }
    }

    /// How far a published value may be from what was measured, by rounding alone.
    fn rounding(self, value: f64) -> f64 {
        match self {
            // Figure 8's rates are in hundreds, those of the text are exact.
            Self::Requests | Self::Packets | Self::Connections if value % 100.0 == 0.0 => 50.0,
            _ => 0.5,
        }
    }

    /// For tables.
    pub fn label(self) -> &'static str {
        match self {
            Self::Requests => "requests/s",
            Self::Packets => "packets/s",
            Self::Connections => "connections/s",
            Self::Http => "HTTP, Mbit/s",
            Self::HostIdle => "host idle, %",
            Self::HostKernel => "host in kernel, %",
            Self::HostStack => "host in stack, %",
            Self::NicIdle => "NIC idle, %",
            Self::NicConnections => "handed off, %",
            Self::NicPackets => "packets by NIC, %",
            Self::SendDelay => "median send delay, µs",
            Self::ReceiveDelay => "median receive delay, µs",
            Self::MeanDelay => "mean delay, µs",
            Self::ResponseTime => "response time, ms",
            Self::HeldAtFirst => "on the NIC, most",
            Self::Held => "on the NIC, settled",
            Self::Queue => "NIC queue, settled",
        }
    }
}

impl Row {
    /// The published change, in the [unit of changes](Measure::unit_of_change).
    pub fn change(&self) -> Option<f64> {
        match self.published {
            Published::Value { value, from } => {
                from.map(|(_, from)| self.measure.change(from, value))
            }
            Published::Change { change, .. } => Some(change),
            Published::ChangeBetween { .. } | Published::Between { .. } => None,
        }
    }

    /// Judges a value, and the value of the configuration that a change is from.
    ///
    /// A change agrees when it differs by no more than [`TOLERANCE`] of the published one; a value without one, when it differs by no
    /// more than that of itself. What the published number was rounded to is not held against ours.
    pub fn judge(&self, ours: f64, from: Option<f64>) -> Judgement {
        let our_change = from.map(|from| self.measure.change(from, ours));
        let within = |ours: f64, published: f64, rounding: f64| {
            (ours - published).abs() <= (TOLERANCE * published.abs()).max(rounding)
        };
        let agrees = match self.published {
            Published::Value { value, from } => match (from, our_change) {
                (Some((_, from)), Some(our_change)) => {
                    let rounding = self.measure.rounding(value) + self.measure.rounding(from);
                    let rounding = match self.measure.unit_of_change() {
                        "%" => 100.0 * rounding / from,
                        _ => rounding,
                    };
                    within(our_change, self.measure.change(from, value), rounding)
                }
                _ => within(ours, value, self.measure.rounding(value)),
            },
            Published::Change { change, .. } => {
                our_change.is_some_and(|ours| within(ours, change, 0.5))
            }
            Published::ChangeBetween { low, high, .. } => {
                our_change.is_some_and(|ours| (low..=high).contains(&ours))
            }
            Published::Between { low, high } => (low..=high).contains(&ours),
        };
        Judgement {
            ours,
            our_change,
            agrees,
        }
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Table1 => "Table 1",
            Self::Figure5 => "Figure 5",
            Self::Figure6 => "Figure 6",
            Self::Figure7 => "Figure 7",
            Self::Figure8 => "Figure 8",
            Self::ResponseTimes => "Response times (§5.3)",
        })
    }
}
