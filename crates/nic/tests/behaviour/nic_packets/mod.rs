//! How packets of connections that the NIC runs go through it: which come to the host, in what order, and what comes first.

mod rig;

use nic::ToeConfig;
use nic::ring::toe::{RestoreReason, ToeCommand, ToeEvent};
use wire::tcp::Flags;

use rig::{Reported, Rig, ready, toe};

fn config() -> ToeConfig {
    ToeConfig {
        load_control: false,
        packets_per_turn: None,
        ..ToeConfig::default()
    }
}

fn segments(reported: &[Reported]) -> Vec<(u16, u32)> {
    let segment = |reported: &Reported| match reported {
        Reported::Segment(port, at, _) => Some((*port, *at)),
        _ => None,
    };
    reported.iter().filter_map(segment).collect()
}

fn delivered(reported: &[Reported]) -> Vec<u32> {
    let len = |reported: &Reported| match reported {
        Reported::Event(ToeEvent::Delivered { len, .. }) => Some(*len),
        _ => None,
    };
    reported.iter().filter_map(len).collect()
}

#[test]
fn what_comes_before_ready_is_the_hosts_and_what_is_held_comes_in_order_when_the_host_cancels() {
    let mut rig = Rig::new(config(), 64);
    rig.segment(7, 0, b"before");
    rig.begin(7);
    rig.run();
    let reported = rig.reported();
    assert_eq!(
        reported,
        [
            Reported::Segment(7, 0, b"before".to_vec()),
            room(),
            ready(7)
        ]
    );
    rig.segment(7, 6, b"held");
    rig.segment_with(7, 10, b"", Flags::ACK);
    rig.segment(8, 0, b"of another");
    rig.segment(7, 10, b"held too");
    rig.run();
    assert_eq!(segments(&rig.reported()), [(8, 0)]);
    assert_eq!(rig.counters().toe_rx_queue_len, 3);
    rig.command(ToeCommand::Cancel { toe: toe(7) });
    rig.publish();
    rig.run();
    assert_eq!(segments(&rig.reported()), [(7, 6), (7, 10), (7, 10)]);
    rig.segment(7, 18, b"behind");
    rig.run();
    assert_eq!(segments(&rig.reported()), [(7, 18)]);
    assert_eq!(rig.counters().toe_rx_to_host, 3);
    assert_eq!(rig.counters().toe_rx_queue_len, 0);
}

fn room() -> Reported {
    Reported::Event(ToeEvent::Room {
        soft_limit: 4096,
        active: 1,
    })
}

#[test]
fn queued_packets_of_a_connection_that_is_restored_follow_the_word_of_it_also_those_without_a_buffer()
 {
    const MANY: u32 = 20;
    let mut rig = Rig::new(config(), 64);
    rig.hand_off(7);
    rig.command(ToeCommand::Restore { toe: toe(7) });
    rig.publish();
    // The first few are worked off before it is the commands' turn.
    for _ in 0..MANY {
        rig.segment_with(7, 0, b"", Flags::ACK);
    }
    rig.segment(7, 0, b"data");
    rig.run();
    let reported = rig.reported();
    let reason = RestoreReason::Asked;
    let restored = Reported::Event(ToeEvent::Restored {
        toe: toe(7),
        reason,
    });
    let at = reported.iter().position(|reported| *reported == restored);
    let at = at.expect("it was restored");
    assert!(segments(&reported[..at]).is_empty());
    let behind = segments(&reported[at..]);
    assert!(
        !behind.is_empty() && behind.len() < MANY as usize,
        "{behind:?}"
    );
    assert_eq!(
        reported.last(),
        Some(&Reported::Segment(7, 0, b"data".to_vec()))
    );
}

#[test]
fn segments_without_payload_take_no_buffer() {
    let mut rig = Rig::new(config(), 1);
    rig.hand_off(7);
    for _ in 0..50 {
        rig.segment_with(7, 0, b"", Flags::ACK);
    }
    rig.segment(7, 0, b"data");
    rig.run();
    assert_eq!(delivered(&rig.reported()), [4]);
    assert_eq!(rig.counters().rx_out_of_buffer, 0);
}

#[test]
fn buffers_of_what_tcp_does_not_take_are_used_again() {
    const BUFFERS: u32 = 4;
    let mut rig = Rig::new(config(), BUFFERS);
    rig.hand_off(7);
    rig.segment(7, 0, b"data");
    rig.run();
    assert_eq!(delivered(&rig.reported()), [4]);
    for _ in 0..100 {
        for _ in 0..BUFFERS {
            rig.segment(7, 0, b"data");
        }
        rig.run();
        assert!(segments(&rig.reported()).is_empty());
    }
    rig.segment(7, 4, b"more");
    rig.run();
    assert_eq!(delivered(&rig.reported()), [4]);
    assert_eq!(rig.counters().rx_out_of_buffer, 0);
}

#[test]
fn a_full_queue_drops_what_comes_and_counts_it_and_takes_no_buffer() {
    let mut rig = Rig::new(
        ToeConfig {
            queue: 4,
            ..config()
        },
        16,
    );
    rig.hand_off(7);
    let mut at = 0;
    for _ in 0..20 {
        for n in 0..10 {
            rig.segment(7, at + n * 4, b"data");
            // A packet of the host's is not dropped for that.
            rig.segment(8, 0, b"");
        }
        assert_eq!(rig.counters().toe_rx_queue_full % 6, 0);
        rig.run();
        let reported = rig.reported();
        assert_eq!(delivered(&reported), [4; 4]);
        assert_eq!(
            segments(&reported)
                .iter()
                .filter(|(port, _)| *port == 8)
                .count(),
            10
        );
        // Only what was acknowledged comes next.
        at += 16;
    }
    assert_eq!(rig.counters().toe_rx_queue_full, 120);
    assert_eq!(rig.counters().rx_out_of_buffer, 0);
}

#[test]
fn what_was_posted_on_the_send_ring_before_a_command_is_done_before_it() {
    let mut rig = Rig::new(config(), 16);
    for _ in 0..100 {
        rig.post_frame(7);
    }
    rig.begin(7);
    let mut out = [0; 2048];
    for sent in 0..100 {
        rig.0.nic.flush(rig.0.now);
        assert_eq!(rig.reported(), [], "after {sent} frames");
        assert!(rig.0.nic.poll_transmit(rig.0.now, &mut out).is_some());
    }
    assert_eq!(rig.run(), 0);
    assert_eq!(rig.reported(), [room(), ready(7)]);
}

#[test]
fn a_turn_ends_with_its_work_and_the_hosts_packets_come_before_the_next() {
    const WORK: u32 = 8;
    let mut rig = Rig::new(
        ToeConfig {
            packets_per_turn: Some(WORK),
            ..config()
        },
        64,
    );
    rig.hand_off(7);
    for n in 0..40 {
        rig.segment(7, n * 4, b"data");
    }
    let mut turns = 0;
    let mut got = 0;
    loop {
        rig.segment(8, turns, b"");
        rig.post_frame(8);
        rig.publish();
        let sent = rig.turn();
        assert!(sent >= 1, "the host's frame has left");
        rig.0.nic.flush(rig.0.now);
        let reported = rig.reported();
        assert!(segments(&reported).contains(&(8, turns)));
        let now = delivered(&reported).len();
        assert!(now <= WORK as usize);
        got += now;
        turns += 1;
        if got == 40 {
            break;
        }
        assert!(
            rig.0
                .nic
                .poll_timeout()
                .is_some_and(|when| when <= rig.0.now)
        );
        assert!(turns < 40);
    }
    assert!(turns >= 5);
}

#[test]
fn a_reset_function_has_nothing_and_its_host_is_notified_behind_all_else() {
    const BUFFERS: u32 = 8;
    let mut rig = Rig::new(config(), BUFFERS);
    rig.hand_off(7);
    rig.begin(9);
    rig.run();
    rig.reported();
    rig.segment(8, 0, b"told");
    for n in 0..3 {
        rig.segment(7, n * 4, b"lost");
        rig.segment(9, n * 4, b"lost");
    }
    rig.post_frame(8);
    rig.command(ToeCommand::Close { toe: toe(7) });
    rig.publish();
    let id = rig.0.host.id;
    assert!(rig.0.nic.reset_function(id));
    assert_eq!(rig.run(), 0, "what was posted is gone");
    let reported = rig.reported();
    assert_eq!(
        reported,
        [
            Reported::Segment(8, 0, b"told".to_vec()),
            Reported::Reset(1)
        ]
    );
    assert_eq!(rig.counters().toe_connections, 0);
    // All flows are the host's, and all buffers are there.
    for n in 0..u32::from(u8::MAX) {
        for port in [7, 8, 9] {
            rig.segment(port, n, b"x");
        }
        rig.run();
        let got: Vec<u16> = segments(&rig.reported())
            .iter()
            .map(|(port, _)| *port)
            .collect();
        assert_eq!(got, [7, 8, 9]);
    }
    rig.hand_off(7);
    rig.segment(7, 0, b"data");
    rig.run();
    assert_eq!(delivered(&rig.reported()), [4]);
}
