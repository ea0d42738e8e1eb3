use proptest::prelude::*;

use super::{LoadConfig, LoadControl, LoadState};

fn control(hard_limit: u32, hiwat: u32, lowat: u32) -> LoadControl {
    LoadControl::new(LoadConfig {
        hard_limit,
        hiwat,
        lowat,
    })
}

#[test]
fn an_overloaded_nic_has_fewer_connections_until_the_queue_is_short() {
    let mut load = control(4096, 1024, 64);
    assert_eq!(
        load.packet_arrived(1024, 2048),
        None,
        "Hiwat itself is fine"
    );
    assert_eq!(load.packet_arrived(1025, 2048), Some(1792));
    assert_eq!(load.state(), LoadState::Decrease);
    assert!(!load.admits(2047));
    assert_eq!(load.packet_arrived(4000, 2047), None, "it waits");
    assert_eq!(load.terminated(4000, 1792), None);
    assert_eq!(load.state(), LoadState::Decrease);
    assert_eq!(load.terminated(4000, 1791), None);
    assert_eq!(load.state(), LoadState::Monitor);
    assert_eq!(load.packet_arrived(2000, 1791), Some(1567));
    assert_eq!(load.terminated(500, 1566), None);
    assert_eq!(load.packet_arrived(500, 1566), None, "between the marks");
    assert_eq!(load.state(), LoadState::Monitor);
    assert_eq!(load.packet_arrived(63, 1566), Some(1615));
    assert_eq!(load.state(), LoadState::Increase);
    assert_eq!(
        load.packet_arrived(0, 1600),
        None,
        "it waits for connections"
    );
    assert_eq!(load.handed_off(10, 1615), None);
    assert_eq!(load.state(), LoadState::Monitor);
}

#[test]
fn too_much_while_increasing_goes_straight_to_decrease() {
    let mut load = control(100, 10, 2);
    assert_eq!(load.packet_arrived(11, 100), Some(87));
    load.terminated(0, 86);
    assert_eq!(load.packet_arrived(1, 86), Some(89));
    assert_eq!(load.packet_arrived(11, 87), Some(76));
    assert_eq!(load.state(), LoadState::Decrease);
}

#[test]
fn a_nic_without_memory_admits_nothing_and_says_nothing() {
    let mut load = control(0, 10, 2);
    for qlen in [0, 5, 50] {
        assert_eq!(load.packet_arrived(qlen, 0), None);
    }
    assert!(!load.admits(0));
}

#[test]
fn the_last_connection_is_not_locked_out() {
    let mut load = control(1, 1, 1);
    assert_eq!(load.packet_arrived(2, 1), None, "nothing less than one");
    load.terminated(0, 0);
    assert_eq!(load.state(), LoadState::Monitor);
    assert!(load.admits(0));
}

#[derive(Clone, Debug)]
enum Happening {
    Packet { qlen: u32 },
    HandOff { qlen: u32 },
    End { qlen: u32 },
}

fn happening() -> impl Strategy<Value = Happening> {
    let qlen = prop_oneof![0..80u32, any::<u32>()];
    prop_oneof![
        qlen.clone().prop_map(|qlen| Happening::Packet { qlen }),
        qlen.clone().prop_map(|qlen| Happening::HandOff { qlen }),
        qlen.prop_map(|qlen| Happening::End { qlen }),
    ]
}

proptest! {
    /// The figure as a table: every change of the limit and of the state is one that it has, and what was reported is the limit.
    #[test]
    fn every_step_is_one_of_the_figure(
        hard_limit in prop_oneof![0..300u32, any::<u32>()],
        hiwat in 0..64u32,
        lowat in 0..64u32,
        start in 0..300u32,
        happenings in prop::collection::vec(happening(), 0..400),
    ) {
        let mut load = control(hard_limit, hiwat, lowat);
        let LoadConfig { hiwat, lowat, .. } = load.config();
        prop_assert!(1 <= lowat && lowat <= hiwat);
        let mut cnum = start.min(hard_limit);
        let mut reported = hard_limit;
        for happening in happenings {
            let (state, limit) = (load.state(), load.soft_limit());
            let (qlen, answer) = match happening {
                Happening::Packet { qlen } => (qlen, load.packet_arrived(qlen, cnum)),
                Happening::HandOff { qlen } => {
                    cnum += u32::from(load.admits(cnum));
                    (qlen, load.handed_off(qlen, cnum))
                }
                Happening::End { qlen } => {
                    cnum = cnum.saturating_sub(1);
                    (qlen, load.terminated(qlen, cnum))
                }
            };
            let (to, after) = (load.state(), load.soft_limit());
            prop_assert!(after <= hard_limit);
            prop_assert!(after > 0 || hard_limit == 0);
            prop_assert_eq!(answer, (after != limit).then_some(after));
            reported = answer.unwrap_or(reported);
            prop_assert_eq!(reported, after);
            let overloaded = qlen > hiwat;
            match (state, to) {
                (LoadState::Monitor | LoadState::Increase, LoadState::Decrease) => {
                    prop_assert!(overloaded && after <= limit && (after < cnum || cnum <= 1));
                }
                (LoadState::Monitor, LoadState::Increase) => {
                    prop_assert!(qlen < lowat && after > limit);
                }
                (LoadState::Monitor, LoadState::Monitor) => {
                    prop_assert!(!overloaded && after == limit);
                    prop_assert!(qlen >= lowat || limit == hard_limit);
                }
                (LoadState::Increase, LoadState::Increase) => {
                    prop_assert!(!overloaded && after == limit && cnum < limit);
                }
                (LoadState::Increase, LoadState::Monitor) => {
                    prop_assert!(!overloaded && after == limit && cnum >= limit);
                }
                (LoadState::Decrease, LoadState::Decrease) => {
                    prop_assert!(after == limit && cnum >= limit);
                }
                (LoadState::Decrease, LoadState::Monitor) => {
                    prop_assert!(after == limit && cnum < limit);
                }
                (LoadState::Decrease, LoadState::Increase) => prop_assert!(false, "not in the figure"),
            }
        }
    }

    /// Between two changes in one direction the connections have come to what the first asked for, so that nothing
    /// swings faster than connections come and go.
    #[test]
    fn no_limit_changes_again_before_it_took_effect(
        hard_limit in 1..300u32,
        hiwat in 1..64u32,
        lowat in 1..64u32,
        happenings in prop::collection::vec(happening(), 0..400),
    ) {
        let mut load = control(hard_limit, hiwat, lowat);
        let mut cnum = hard_limit;
        // The last change was a cut; since it, the connections have been fewer than the limit, or as many.
        let (mut cut, mut fewer, mut filled) = (false, true, true);
        let mut last = hard_limit;
        for happening in happenings {
            let answer = match happening {
                Happening::Packet { qlen } => load.packet_arrived(qlen, cnum),
                Happening::HandOff { qlen } => {
                    cnum += u32::from(load.admits(cnum));
                    load.handed_off(qlen, cnum)
                }
                Happening::End { qlen } => {
                    cnum = cnum.saturating_sub(1);
                    load.terminated(qlen, cnum)
                }
            };
            if let Some(limit) = answer {
                let cuts = limit < last;
                let took_effect = if cut { fewer } else { filled || cuts };
                prop_assert!(took_effect);
                (cut, fewer, filled, last) = (cuts, false, false, limit);
            }
            fewer |= cnum < load.soft_limit();
            filled |= cnum >= load.soft_limit();
        }
    }
}
