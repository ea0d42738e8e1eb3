//! The peer's window is respected.

use std::time::Duration;

use wire::tcp::Flags;

use super::rig::{MSS, Peer, RTO, Rig, TICK, UNA, bytes, teardown};

/// RFC 9293 §3.8.6.1.
#[test]
fn a_closed_window_is_probed_until_it_opens() {
    let mut teardown = teardown(1);
    teardown.peer_window = 0;
    let (mut rig, mut peer) = (Rig::new(), Peer::of(&teardown));
    rig.close(&teardown, &bytes(100)).expect("room");
    assert_eq!(rig.only().flags(), Flags::ACK);
    peer.window = 0;
    let mut rto = RTO;
    for _ in 0..3 {
        let waited = rig.until_sent(rto * 2).expect("a probe");
        assert!(rto <= waited && waited < rto + TICK, "{waited:?}");
        let probe = rig.only();
        assert_eq!((probe.header.seq, probe.payload.len()), (UNA - 1, 0));
        peer.acknowledge(&mut rig, UNA);
        assert!(rig.sent().is_empty());
        rto *= 2;
    }
    peer.window = 1000;
    peer.acknowledge(&mut rig, UNA);
    let sent = rig.only();
    assert_eq!(sent.payload, bytes(100));
    assert!(sent.flags().contains(Flags::FIN));
    // The time-outs were about the window.
    let waited = rig.until_sent(RTO * 2).expect("again");
    assert!(waited < RTO + TICK);
}

/// When no application waits, patience ends, also with a peer that answers.
#[test]
fn a_window_that_stays_closed_ends_in_a_reset() {
    let mut teardown = teardown(1);
    teardown.peer_window = 0;
    let (mut rig, mut peer) = (Rig::new(), Peer::of(&teardown));
    peer.window = 0;
    rig.close(&teardown, &bytes(100)).expect("room");
    rig.sent();
    let start = rig.now;
    let mut last = None;
    while rig.closing() > 0 {
        rig.until_sent(Duration::from_secs(300))
            .expect("a probe or the end");
        last = Some(rig.only());
        if rig.closing() > 0 {
            peer.acknowledge(&mut rig, UNA);
            assert!(rig.sent().is_empty());
        }
    }
    assert_eq!(last.map(|last| last.flags()), Some(Flags::RST));
    let took = rig.now - start;
    assert!((100..110).contains(&took.as_secs()), "{took:?}");
}

/// The FIN takes room in the window as well.
#[test]
fn a_fin_waits_for_room() {
    let mut teardown = teardown(1);
    teardown.peer_window = 100;
    let (mut rig, mut peer) = (Rig::new(), Peer::of(&teardown));
    peer.window = 0;
    rig.close(&teardown, &bytes(100)).expect("room");
    let data = rig.only();
    assert_eq!(
        (data.payload.len(), data.flags()),
        (100, Flags::ACK | Flags::PSH)
    );
    peer.acknowledge(&mut rig, UNA + 100);
    assert!(rig.sent().is_empty());
    peer.window = 1;
    peer.acknowledge(&mut rig, UNA + 100);
    assert!(rig.only().flags().contains(Flags::FIN));
}

/// RFC 9293 §3.8.6.2.1: no small segments into a window that opens bit by bit, unless the override timer says so.
#[test]
fn a_small_window_is_not_filled_at_once() {
    let mut teardown = teardown(1);
    teardown.peer_window = 2 * u32::from(MSS);
    let (mut rig, mut peer) = (Rig::new(), Peer::of(&teardown));
    rig.close(&teardown, &bytes(5000)).expect("room");
    assert_eq!(rig.sent().len(), 2);
    peer.window = 100;
    peer.acknowledge(&mut rig, UNA + 2 * u32::from(MSS));
    assert!(rig.sent().is_empty());
    rig.until_sent(RTO * 2).expect("the override");
    assert_eq!(rig.only().payload.len(), 100);
    // Half of the largest window ever is worth it.
    peer.window = MSS;
    peer.acknowledge(&mut rig, UNA + 2 * u32::from(MSS) + 100);
    assert_eq!(rig.only().payload.len(), usize::from(MSS));
}

/// RFC 9293 §3.8.6: a peer that takes back its window is probed with what is oldest only.
#[test]
fn a_window_taken_back_lets_the_oldest_through() {
    let (mut rig, teardown) = (Rig::new(), teardown(1));
    let mut peer = Peer::of(&teardown);
    rig.close(&teardown, &bytes(5000)).expect("room");
    rig.sent();
    peer.window = 0;
    peer.acknowledge(&mut rig, UNA);
    rig.until_sent(RTO * 2).expect("again");
    assert_eq!(rig.only().payload.len(), usize::from(MSS));
}

/// Windows are scaled as the SYNs agreed.
#[test]
fn windows_are_scaled() {
    let mut teardown = teardown(1);
    teardown.peer_window = 0;
    teardown.peer_shift = 7;
    let (mut rig, mut peer) = (Rig::new(), Peer::of(&teardown));
    rig.close(&teardown, &bytes(5000)).expect("room");
    rig.sent();
    peer.window = 40;
    peer.acknowledge(&mut rig, UNA);
    let sent = rig.sent();
    assert_eq!(
        sent.iter().map(|sent| sent.payload.len()).sum::<usize>(),
        5000
    );
}

/// No packet is larger than the wire takes, whatever a host says.
#[test]
fn packets_fit_the_wire() {
    let mut teardown = teardown(1);
    teardown.mss = 9000;
    let mut rig = Rig::new();
    rig.close(&teardown, &bytes(9000)).expect("room");
    let sent = rig.sent();
    assert!(
        sent.iter().all(|sent| sent.payload.len() <= 1448),
        "{}",
        sent.len()
    );
    assert_eq!(sent.len(), 7);
}
