//! Table 1: the impact of a heavily loaded NIC on the World Cup workload (Connection handoff policies §3.1).

use super::Measure::{HostIdle, NicIdle, ReceiveDelay, Requests, SendDelay};
use super::{Figure, Measure, Published, Row};

const NONE: &str = "W-0-N-N-FCFS-400";
const FEW: &str = "W-256-N-N-FCFS-400";
const MANY: &str = "W-1024-N-N-FCFS-400";
const FIRST: &str = "W-1024-P-N-FCFS-400";

/// All of it, and what the text reads from it.
pub const TABLE_1: &[Row] = &[
    base(SendDelay, 2.0),
    base(ReceiveDelay, 2.0),
    base(HostIdle, 0.0),
    base(NicIdle, 62.0),
    base(Requests, 23031.0),
    row(FEW, SendDelay, 3.0, 2.0),
    row(FEW, ReceiveDelay, 3.0, 2.0),
    row(FEW, HostIdle, 0.0, 0.0),
    row(FEW, NicIdle, 49.0, 62.0),
    row(FEW, Requests, 23935.0, 23031.0),
    row(MANY, SendDelay, 679.0, 2.0),
    row(MANY, ReceiveDelay, 301.0, 2.0),
    row(MANY, HostIdle, 62.0, 0.0),
    row(MANY, NicIdle, 3.0, 62.0),
    row(MANY, Requests, 16121.0, 23031.0),
    row(FIRST, SendDelay, 10.0, 2.0),
    row(FIRST, ReceiveDelay, 6.0, 2.0),
    row(FIRST, HostIdle, 0.0, 0.0),
    row(FIRST, NicIdle, 5.0, 62.0),
    row(FIRST, Requests, 26663.0, 23031.0),
    Row {
        figure: Figure::Table1,
        config: MANY,
        measure: Requests,
        published: Published::Value {
            value: 16121.0,
            from: Some((FEW, 23935.0)),
        },
        source: "§3.1: \"drops by 33%\"",
    },
];

const fn base(measure: Measure, value: f64) -> Row {
    Row {
        figure: Figure::Table1,
        config: NONE,
        measure,
        published: Published::Value { value, from: None },
        source: "Table 1, row 1",
    }
}

const fn row(config: &'static str, measure: Measure, value: f64, none: f64) -> Row {
    Row {
        figure: Figure::Table1,
        config,
        measure,
        published: Published::Value {
            value,
            from: Some((NONE, none)),
        },
        source: match config.as_bytes() {
            [_, _, b'2', ..] => "Table 1, row 2",
            [_, _, _, _, _, _, _, b'N', ..] => "Table 1, row 3",
            _ => "Table 1, row 4",
        },
    }
}
