//! Figures 5 to 8, and the response times of §5.3.

use super::Measure::{
    Connections, Held, HeldAtFirst, HostIdle, HostKernel, HostStack, Http, MeanDelay,
    NicConnections, NicIdle, NicPackets, Packets, Queue, Requests, ResponseTime,
};
use super::{Figure, Measure, Published, Row};

const W_0: &str = "W-0-N-N-FCFS-400";
const W_NAIVE: &str = "W-1024-N-N-FCFS-400";
const W_FIRST: &str = "W-1024-P-N-FCFS-400";
const W_FULL: &str = "W-4096-P-N-FCFS-400";
const W_400: &str = "W-4096-P-L-FCFS-400";
const W_600: &str = "W-4096-P-L-FCFS-600";
const W_800: &str = "W-4096-P-L-FCFS-800";
const I_0: &str = "I-0-N-N-FCFS-400";
const I_NAIVE: &str = "I-1024-N-N-FCFS-400";
const I_400: &str = "I-4096-P-L-FCFS-400";
const I_600: &str = "I-4096-P-L-FCFS-600";
const I_800: &str = "I-4096-P-L-FCFS-800";
const S_0: &str = "S-0-N-N-FCFS-400";
const S_NAIVE: &str = "S-2048-N-N-FCFS-400";
const S_FIRST: &str = "S-2048-P-N-FCFS-400";
const S_400: &str = "S-4096-P-L-FCFS-400";
const S_600: &str = "S-4096-P-L-FCFS-600";
const S_800: &str = "S-4096-P-L-FCFS-800";
const D_0: &str = "D-0-N-N-FCFS-400";
const D_NAIVE: &str = "D-1024-N-N-FCFS-400";
const D_400: &str = "D-4096-P-L-FCFS-400";
const D_600: &str = "D-4096-P-L-FCFS-600";
const D_800: &str = "D-4096-P-L-FCFS-800";
const FEW_FCFS: &str = "W-256-P-L-FCFS-400";
const FEW_T4: &str = "W-256-P-L-T4-400";
const FEW_T20: &str = "W-256-P-L-T20-400";
const FEW_PREDICT: &str = "W-256-P-L-PREDICT-400";

/// Bars of Figures 5 and 7 of which the text has no number, and our own selection beside those of Figure 7.
pub const WITHOUT_NUMBERS: [&str; 5] = [
    "I-1024-P-N-FCFS-400",
    "S-4096-P-N-FCFS-400",
    "D-1024-P-N-FCFS-400",
    FEW_T4,
    FEW_PREDICT,
];

/// Impact of host first packet processing and load control.
pub const FIGURE_5: &[Row] = &{
    use Figure::Figure5 as F;
    const UP_TO_30: &str = "abstract and §1: \"14–30% lower\" for three workloads";
    [
        value(F, W_0, HostIdle, 0.0, "§5.1"),
        value(F, W_0, HostStack, 57.0, "§5.1"),
        value(F, W_0, NicIdle, 62.0, "§5.1"),
        between(F, W_0, MeanDelay, 0.0, 10.0, "§5.1: \"less than 10\""),
        change(F, W_NAIVE, Requests, W_0, -30.0, "§5.1"),
        from(F, W_NAIVE, HostIdle, 62.0, (W_0, 0.0), "§5.1"),
        from(F, W_NAIVE, NicIdle, 3.0, (W_0, 62.0), "§5.1"),
        between(
            F,
            W_NAIVE,
            MeanDelay,
            1000.0,
            f64::INFINITY,
            "§5.1: \"more than 1 millisecond\"",
        ),
        value(F, W_NAIVE, NicConnections, 88.0, "§5.1"),
        from(F, W_FIRST, HostIdle, 0.0, (W_0, 0.0), "§5.1"),
        from(F, W_FIRST, NicIdle, 5.0, (W_0, 62.0), "§5.1"),
        between(F, W_FIRST, MeanDelay, 0.0, 13.0, "§5.1: \"less than 13\""),
        value(F, W_FIRST, NicConnections, 48.0, "§5.1"),
        from(
            F,
            W_FULL,
            Requests,
            12917.0,
            (W_FIRST, 26663.0),
            "§5.1: \"drops by 52%\"",
        ),
        from(
            F,
            W_FULL,
            Requests,
            12917.0,
            (W_0, 23031.0),
            "§1: \"up to 44%\"",
        ),
        from(F, W_FULL, HostIdle, 64.0, (W_0, 0.0), "§5.1"),
        value(F, W_FULL, NicConnections, 100.0, "§5.1"),
        from(
            F,
            W_FULL,
            NicIdle,
            0.0,
            (W_0, 62.0),
            "§5.1: \"fully saturated\"",
        ),
        between(
            F,
            W_FULL,
            MeanDelay,
            0.0,
            10.0,
            "§5.1: \"several microseconds\"",
        ),
        change(F, W_400, Packets, W_0, 12.0, "§5.1"),
        change(F, W_400, Requests, W_0, 12.0, "§5.1"),
        change(F, W_400, Http, W_0, 10.0, "§5.1"),
        from(F, W_400, NicIdle, 9.0, (W_0, 62.0), "§5.1"),
        value(F, W_400, NicConnections, 45.0, "§5.3"),
        change_between(F, I_NAIVE, Requests, I_0, (-30.0, -14.0), UP_TO_30),
        change(F, I_400, Packets, I_0, 19.0, "§5.1"),
        change(F, I_400, Requests, I_0, 23.0, "§5.1"),
        change(F, I_400, Http, I_0, 18.0, "§5.1"),
        value(F, S_0, HostIdle, 0.0, "§5.1"),
        between(F, S_0, HostKernel, 70.0, 100.0, "§5.1: \"more than 70%\""),
        value(F, S_0, NicIdle, 69.0, "§5.1"),
        change_between(
            F,
            S_NAIVE,
            Requests,
            S_0,
            (-14.0, 0.0),
            "§5.1: \"drops slightly\"",
        ),
        from(F, S_NAIVE, HostIdle, 50.0, (S_0, 0.0), "§5.1"),
        from(F, S_FIRST, NicIdle, 8.0, (S_0, 69.0), "§5.1"),
        change_between(F, S_FIRST, Requests, S_0, (0.0, 24.0), "§1: \"up to 24%\""),
        change(F, S_400, Requests, S_0, 31.0, "§5.1"),
        value(F, S_400, Held, 2000.0, "§5.1: \"around 2000\""),
        change_between(F, D_NAIVE, Requests, D_0, (-30.0, -14.0), UP_TO_30),
        change(F, D_400, Requests, D_0, 28.0, "§5.1"),
    ]
};

/// Load control over time.
pub const FIGURE_6: &[Row] = &{
    use Figure::Figure6 as F;
    [
        value(F, W_400, HeldAtFirst, 2048.0, "§5.1: \"initially 2048\""),
        value(F, W_400, Held, 1000.0, "§5.1: \"around 1000\""),
        between(
            F,
            W_400,
            Queue,
            0.0,
            1024.0,
            "§5.1: \"under the threshold 1024\"",
        ),
    ]
};

/// Connection selection with room for 256 connections.
pub const FIGURE_7: &[Row] = &{
    use Figure::Figure7 as F;
    [
        value(F, FEW_FCFS, NicConnections, 13.0, "§5.2"),
        value(F, FEW_FCFS, NicPackets, 12.0, "§5.2"),
        value(F, FEW_FCFS, NicIdle, 47.0, "§5.2"),
        from(F, FEW_T20, NicPackets, 24.0, (FEW_FCFS, 12.0), "§5.2"),
        change(F, FEW_T20, Requests, FEW_FCFS, 6.0, "§5.2"),
        from(F, FEW_T20, NicIdle, 34.0, (FEW_FCFS, 47.0), "§5.2"),
    ]
};

/// Instruction rate of the NIC.
pub const FIGURE_8: &[Row] = &{
    use Figure::Figure8 as F;
    const BARS: &str = "Figure 8";
    [
        from(F, W_400, NicIdle, 9.0, (W_0, 62.0), BARS),
        value(F, W_400, Connections, 3800.0, BARS),
        value(F, W_400, Packets, 403_200.0, BARS),
        value(F, W_400, Requests, 25830.0, "§5.3"),
        value(F, W_400, Http, 1355.0, BARS),
        from(F, W_600, NicIdle, 0.0, (W_400, 9.0), BARS),
        from(F, W_600, Connections, 4200.0, (W_400, 3800.0), BARS),
        from(F, W_600, Packets, 464_200.0, (W_400, 403_200.0), BARS),
        from(F, W_600, Requests, 29398.0, (W_400, 25830.0), "§5.3"),
        from(F, W_600, Http, 1600.0, (W_400, 1355.0), BARS),
        from(F, W_600, NicConnections, 70.0, (W_400, 45.0), "§5.3"),
        from(F, W_800, NicIdle, 0.0, (W_400, 9.0), BARS),
        from(F, W_800, Connections, 5200.0, (W_400, 3800.0), BARS),
        from(F, W_800, Packets, 580_600.0, (W_400, 403_200.0), BARS),
        from(F, W_800, Requests, 36532.0, (W_400, 25830.0), "§5.3"),
        from(F, W_800, Http, 2024.0, (W_400, 1355.0), BARS),
        from(F, W_800, NicConnections, 85.0, (W_400, 45.0), "§5.3"),
        value(F, I_400, NicIdle, 8.0, BARS),
        value(F, I_400, Connections, 2600.0, BARS),
        value(F, I_400, Packets, 318_700.0, BARS),
        value(F, I_400, Requests, 31600.0, BARS),
        value(F, I_400, Http, 638.0, BARS),
        from(F, I_600, NicIdle, 3.0, (I_400, 8.0), BARS),
        from(F, I_600, Connections, 3100.0, (I_400, 2600.0), BARS),
        from(F, I_600, Packets, 402_100.0, (I_400, 318_700.0), BARS),
        from(F, I_600, Requests, 38100.0, (I_400, 31600.0), BARS),
        from(F, I_600, Http, 807.0, (I_400, 638.0), BARS),
        value(F, I_600, NicConnections, 95.0, "§5.3"),
        from(F, I_800, NicIdle, 18.0, (I_400, 8.0), BARS),
        from(F, I_800, Connections, 3200.0, (I_400, 2600.0), BARS),
        from(F, I_800, Packets, 415_700.0, (I_400, 318_700.0), BARS),
        from(F, I_800, Requests, 39200.0, (I_400, 31600.0), BARS),
        from(F, I_800, Http, 837.0, (I_400, 638.0), BARS),
        from(F, S_400, NicIdle, 11.0, (S_0, 69.0), BARS),
        value(F, S_400, Connections, 5800.0, BARS),
        value(F, S_400, Packets, 398_800.0, BARS),
        value(F, S_400, Requests, 14900.0, BARS),
        value(F, S_400, Http, 1417.0, BARS),
        from(F, S_600, NicIdle, 7.0, (S_400, 11.0), BARS),
        from(F, S_600, Connections, 6700.0, (S_400, 5800.0), BARS),
        from(F, S_600, Packets, 439_400.0, (S_400, 398_800.0), BARS),
        from(F, S_600, Requests, 17300.0, (S_400, 14900.0), BARS),
        from(F, S_600, Http, 1537.0, (S_400, 1417.0), BARS),
        from(F, S_800, NicIdle, 11.0, (S_400, 11.0), BARS),
        from(F, S_800, Connections, 7600.0, (S_400, 5800.0), BARS),
        from(F, S_800, Packets, 510_700.0, (S_400, 398_800.0), BARS),
        from(F, S_800, Requests, 19600.0, (S_400, 14900.0), BARS),
        from(F, S_800, Http, 1796.0, (S_400, 1417.0), BARS),
        change(F, S_800, Requests, S_0, 72.0, "abstract: \"33–72%\""),
        value(F, D_400, NicIdle, 9.0, BARS),
        value(F, D_400, Connections, 3700.0, BARS),
        value(F, D_400, Packets, 277_700.0, BARS),
        value(F, D_400, Requests, 10200.0, BARS),
        value(F, D_400, Http, 990.0, BARS),
        from(F, D_600, NicIdle, 29.0, (D_400, 9.0), BARS),
        from(F, D_600, Connections, 3900.0, (D_400, 3700.0), BARS),
        from(F, D_600, Packets, 279_800.0, (D_400, 277_700.0), BARS),
        from(F, D_600, Requests, 10400.0, (D_400, 10200.0), BARS),
        from(F, D_600, Http, 977.0, (D_400, 990.0), BARS),
        from(F, D_800, NicIdle, 42.0, (D_400, 9.0), BARS),
        from(F, D_800, Connections, 3900.0, (D_400, 3700.0), BARS),
        from(F, D_800, Packets, 289_000.0, (D_400, 277_700.0), BARS),
        from(F, D_800, Requests, 10500.0, (D_400, 10200.0), BARS),
        from(F, D_800, Http, 1014.0, (D_400, 990.0), BARS),
        change(F, D_800, Requests, D_0, 33.0, "abstract: \"33–72%\""),
    ]
};

/// Mean response times of the World Cup workload.
pub const RESPONSE_TIMES: &[Row] = &{
    use Figure::ResponseTimes as F;
    const HELD_AT_MOST: &str = "W-1024-P-L-FCFS-400";
    [
        value(F, W_0, ResponseTime, 61.0, "§5.3"),
        from(F, W_NAIVE, ResponseTime, 99.0, (W_0, 61.0), "§5.3"),
        from(F, HELD_AT_MOST, ResponseTime, 60.0, (W_NAIVE, 99.0), "§5.3"),
        from(F, W_600, ResponseTime, 53.0, (W_0, 61.0), "§5.3"),
        from(F, W_800, ResponseTime, 40.0, (W_0, 61.0), "§5.3"),
    ]
};

const fn row(
    figure: Figure,
    config: &'static str,
    measure: Measure,
    published: Published,
    source: &'static str,
) -> Row {
    Row {
        figure,
        config,
        measure,
        published,
        source,
    }
}

const fn value(
    figure: Figure,
    config: &'static str,
    measure: Measure,
    value: f64,
    source: &'static str,
) -> Row {
    let published = Published::Value { value, from: None };
    row(figure, config, measure, published, source)
}

const fn from(
    figure: Figure,
    config: &'static str,
    measure: Measure,
    value: f64,
    from: (&'static str, f64),
    source: &'static str,
) -> Row {
    let published = Published::Value {
        value,
        from: Some(from),
    };
    row(figure, config, measure, published, source)
}

const fn change(
    figure: Figure,
    config: &'static str,
    measure: Measure,
    from: &'static str,
    change: f64,
    source: &'static str,
) -> Row {
    let published = Published::Change { from, change };
    row(figure, config, measure, published, source)
}

const fn change_between(
    figure: Figure,
    config: &'static str,
    measure: Measure,
    from: &'static str,
    (low, high): (f64, f64),
    source: &'static str,
) -> Row {
    let published = Published::ChangeBetween { from, low, high };
    row(figure, config, measure, published, source)
}

const fn between(
    figure: Figure,
    config: &'static str,
    measure: Measure,
    low: f64,
    high: f64,
    source: &'static str,
) -> Row {
    let published = Published::Between { low, high };
    row(figure, config, measure, published, source)
}
