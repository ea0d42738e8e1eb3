//! What is lost is sent again.

use std::time::Duration;

use wire::tcp::Flags;

use super::rig::{MSS, Peer, RTO, Rig, Sent, TICK, UNA, bytes, flow, teardown};
use crate::config::{NicConfig, WireCapabilities};

const M: usize = MSS as usize;

/// Places of the data that was sent.
fn places(sent: &[Sent]) -> Vec<(u32, usize)> {
    let place = |sent: &Sent| (UNA.distance_to(sent.header.seq), sent.payload.len());
    sent.iter().map(place).collect()
}

fn assert_about(span: Option<Duration>, wanted: Duration) {
    let span = span.expect("it is sent again");
    assert!(
        wanted <= span && span < wanted + TICK,
        "{span:?} not {wanted:?}"
    );
}

#[test]
fn segments_have_the_size_that_the_peer_takes() {
    let (mut rig, teardown) = (Rig::new(), teardown(1));
    let data = bytes(14_480);
    rig.close(&teardown, &data).expect("an initial window");
    let sent = rig.sent();
    let wanted: Vec<_> = (0..10).map(|at| (at * u32::from(MSS), M)).collect();
    assert_eq!(places(&sent), wanted);
    let together: Vec<u8> = sent.iter().flat_map(|sent| sent.payload.clone()).collect();
    assert_eq!(together, data);
    let ends: Vec<bool> = sent
        .iter()
        .map(|sent| sent.flags().contains(Flags::FIN))
        .collect();
    assert_eq!(ends.iter().position(|fin| *fin), Some(9));
}

/// A wire that cuts gets one frame.
#[test]
fn a_wire_that_cuts_gets_all_at_once() {
    let config = NicConfig {
        wire: WireCapabilities {
            tso: true,
            checksum: true,
        },
        ..NicConfig::new([7; 16])
    };
    let (mut rig, teardown) = (Rig::with(config, |_| {}), teardown(1));
    rig.close(&teardown, &bytes(10_000)).expect("room");
    let sent = rig.only();
    assert_eq!((sent.payload.len(), sent.meta.gso_size), (10_000, MSS));
    assert!(sent.meta.needs_checksum.is_some());
    assert_eq!(sent.payload, bytes(10_000));
    assert_eq!(rig.counters().accel_closing_tx_packets, 7);
    // Again, one by one as it is acknowledged.
    let mut peer = Peer::of(&teardown);
    assert_about(rig.until_sent(RTO * 2), RTO);
    assert_eq!(places(&rig.sent()), [(0, M)]);
    peer.acknowledge(&mut rig, UNA + u32::from(MSS));
    let again = rig.only();
    assert_eq!((again.payload.len(), again.meta.gso_size), (2 * M, MSS));
    assert_eq!(again.payload, bytes(10_000)[M..3 * M]);
}

/// RFC 6298 §5.5; a RST ends it after the last time-out.
#[test]
fn time_outs_back_off_until_the_peer_is_given_up() {
    let (mut rig, teardown) = (Rig::new(), teardown(1));
    rig.close(&teardown, &bytes(64)).expect("room");
    let first = rig.only();
    let mut rto = RTO;
    for _ in 0..8 {
        assert_about(rig.until_sent(rto * 2), rto);
        let again = rig.only();
        assert_eq!(again.payload, first.payload);
        assert_eq!(again.flags(), first.flags());
        rto *= 2;
    }
    assert_about(rig.until_sent(rto * 2), rto);
    let reset = rig.only();
    assert_eq!((reset.flags(), reset.header.seq), (Flags::RST, UNA + 65));
    assert_eq!(rig.closing(), 0);
    assert_eq!(rig.counters().accel_closing_retrans, 8);
    assert_eq!(rig.counters().accel_closing_timeouts, 9);
    assert_eq!(rig.room(), Rig::new().room());
}

/// After a time-out: go back, one segment, then more with each acknowledgment (RFC 5681 §3.1).
#[test]
fn after_a_time_out_it_goes_back_and_starts_slowly() {
    let (mut rig, teardown) = (Rig::new(), teardown(1));
    let mut peer = Peer::of(&teardown);
    rig.close(&teardown, &bytes(5 * M)).expect("room");
    rig.sent();
    assert_about(rig.until_sent(RTO * 2), RTO);
    let m = u32::from(MSS);
    assert_eq!(places(&rig.sent()), [(0, M)]);
    peer.acknowledge(&mut rig, UNA + m);
    assert_eq!(places(&rig.sent()), [(m, M), (2 * m, M)]);
    // The rest was there.
    peer.acknowledge(&mut rig, UNA + 5 * m);
    let fin = rig.only();
    assert_eq!((fin.header.seq, fin.payload.len()), (UNA + 5 * m, 0));
    assert!(fin.flags().contains(Flags::FIN));
    // Karn: what was acknowledged may be what took so long.
    assert_about(rig.until_sent(RTO * 4), RTO * 2);
    rig.sent();
    peer.acknowledge(&mut rig, UNA + 5 * m + 1);
    assert!(rig.pass(Duration::from_secs(59)).is_empty());
}

/// RFC 5681 §3.2, RFC 6582.
#[test]
fn three_duplicate_acks_bring_the_lost_segment() {
    let (mut rig, teardown) = (Rig::new(), teardown(1));
    let mut peer = Peer::of(&teardown);
    rig.close(&teardown, &bytes(6 * M)).expect("room");
    rig.sent();
    let m = u32::from(MSS);
    // The second and the fourth are lost.
    peer.acknowledge(&mut rig, UNA + m);
    for _ in 0..2 {
        peer.acknowledge(&mut rig, UNA + m);
        assert!(rig.sent().is_empty());
    }
    peer.acknowledge(&mut rig, UNA + m);
    assert_eq!(places(&rig.sent()), [(m, M)]);
    // More of them are about the same.
    for _ in 0..5 {
        peer.acknowledge(&mut rig, UNA + m);
    }
    assert!(rig.sent().is_empty());
    // A partial acknowledgment names the next one.
    peer.acknowledge(&mut rig, UNA + 3 * m);
    assert_eq!(places(&rig.sent()), [(3 * m, M)]);
    peer.acknowledge(&mut rig, UNA + 6 * m + 1);
    assert!(rig.sent().is_empty());
    assert_eq!(rig.counters().accel_closing_timeouts, 0);
    assert_eq!(rig.counters().accel_closing_retrans, 2);
}

#[test]
fn a_lost_fin_comes_again_alone() {
    let (mut rig, teardown) = (Rig::new(), teardown(1));
    let mut peer = Peer::of(&teardown);
    rig.close(&teardown, &bytes(100)).expect("room");
    rig.sent();
    peer.acknowledge(&mut rig, UNA + 100);
    assert_about(rig.until_sent(RTO * 2), RTO);
    let fin = rig.only();
    assert_eq!((fin.header.seq, fin.payload.len()), (UNA + 100, 0));
    assert_eq!(fin.flags(), Flags::FIN | Flags::ACK);
}

/// Each acknowledgment frees what it covers, and gives the rest a full time-out.
#[test]
fn acknowledgments_free_memory_and_restart_the_timer() {
    let (mut rig, teardown) = (Rig::new(), teardown(1));
    let mut peer = Peer::of(&teardown);
    let all = rig.room().packet_memory;
    rig.close(&teardown, &bytes(1280)).expect("room");
    rig.sent();
    assert_eq!(rig.room().packet_memory, all - 1280);
    for acknowledged in [1, 127, 128, 700, 1279] {
        rig.now += RTO / 2;
        peer.acknowledge(&mut rig, UNA + acknowledged);
        let held = 1280 - u64::from(acknowledged) / 128 * 128;
        assert_eq!(rig.room().packet_memory, all - held);
        assert!(rig.until_sent(RTO - TICK).is_none());
        rig.now -= RTO - TICK;
    }
    peer.acknowledge(&mut rig, UNA + 1280);
    assert_eq!(rig.room().packet_memory, all);
}

/// RFC 1191, RFC 8201: what was too big for the path is sent again at once, in smaller packets.
#[test]
fn a_path_that_takes_smaller_packets_gets_them() {
    for (v6, mtu, payload) in [(false, 1000, 948), (true, 1400, 1328), (false, 68, 52)] {
        let (mut rig, mut teardown) = (Rig::new(), teardown(1));
        teardown.flow = flow(1, v6);
        rig.close(&teardown, &bytes(3000)).expect("room");
        assert_eq!(rig.sent().len(), 3);
        // RFC 5927 §4.1: what is not in flight was not seen by any router.
        rig.report_too_big(&teardown.flow, UNA - 1, mtu);
        rig.report_too_big(&teardown.flow, UNA + 3001, mtu);
        assert!(rig.sent().is_empty());
        rig.report_too_big(&teardown.flow, UNA, mtu);
        let again = rig.sent();
        assert_eq!(again[0].payload.len(), payload);
        let together: Vec<u8> = again.iter().flat_map(|sent| sent.payload.clone()).collect();
        assert_eq!(together, bytes(3000));
        // The same report again, or a larger one, changes nothing.
        rig.report_too_big(&teardown.flow, UNA, mtu + 1);
        assert!(rig.sent().is_empty());
    }
}

/// Time-outs that the host had count.
#[test]
fn patience_goes_on_where_the_host_has_stopped() {
    let mut teardown = teardown(1);
    teardown.snd_nxt = UNA + 10;
    teardown.retransmits = 7;
    let mut rig = Rig::new();
    rig.close(&teardown, &bytes(10)).expect("room");
    rig.sent();
    assert_about(rig.until_sent(RTO * 300), RTO * 128);
    rig.sent();
    assert_about(rig.until_sent(RTO * 300), RTO * 256);
    assert_eq!(rig.only().flags(), Flags::RST);
}
