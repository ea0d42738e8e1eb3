//! What is kept of connections that have ended, and who may have their ports.

use std::time::{Duration, Instant};

use tcp::{Connection, TimeWait, TimeWaitEntry, Verdict};
use wire::tcp::{Flags, Header, Timestamps};
use wire::{FlowKey, SeqNum};

use crate::listener::{KEY, flow, syn};
use crate::peer::Peer;

fn resting(now: Instant) -> (TimeWait, FlowKey, TimeWaitEntry) {
    let mut table = TimeWait::new(now, 3, Duration::from_secs(60), KEY);
    let entry = TimeWaitEntry {
        snd_nxt: SeqNum(1000),
        rcv_nxt: SeqNum(0xffff_fff0),
        rcv_wnd: 65_535,
        window: 512,
        timestamps: Some((7000, 9000)),
    };
    let to_peer = flow(1);
    table.insert(now, to_peer, entry);
    (table, to_peer, entry)
}

/// RFC 9293 §3.10.7.4, RFC 1337, RFC 6191.
#[test]
fn the_time_wait_table_answers_for_its_flows() {
    let now = Instant::now();
    let (mut table, to_peer, entry) = resting(now);
    let from_peer = to_peer.reversed();
    let fin = Header {
        seq: entry.rcv_nxt - 1,
        ack: entry.snd_nxt,
        flags: Flags::FIN | Flags::ACK,
        ..Header::default()
    };
    let later = now + Duration::from_secs(30);
    let Verdict::Reply(ack) = table.handle_segment(later, &from_peer, &fin, 0) else {
        panic!("an ACK")
    };
    assert_eq!(
        (ack.seq, ack.ack, ack.flags, ack.window),
        (entry.snd_nxt, entry.rcv_nxt, Flags::ACK, 512)
    );
    assert_eq!(
        ack.options.timestamps,
        Some(Timestamps {
            val: 39_000,
            echo: 7000
        })
    );
    let reset = Header {
        flags: Flags::RST,
        seq: entry.rcv_nxt,
        ..fin
    };
    assert_eq!(
        table.handle_segment(later, &from_peer, &reset, 0),
        Verdict::Drop
    );
    // The FIN has made it start anew.
    table.handle_timeout(now + Duration::from_secs(61));
    assert_eq!(table.len(), 1);
    table.handle_timeout(now + Duration::from_secs(91));
    assert!(table.is_empty());
    assert_eq!(table.poll_timeout(), None);
    assert_eq!(
        table.handle_segment(later, &from_peer, &fin, 0),
        Verdict::Unknown
    );
}

#[test]
fn a_new_incarnation_ends_time_wait() {
    let now = Instant::now();
    for (val, seq, reopens) in [
        (7001, 5u32, true),
        (6999, 5, false),
        (7000, 5, true),
        (7000, 0xffff_ff00, false),
    ] {
        let (mut table, to_peer, _) = resting(now);
        let mut syn = syn(&to_peer.reversed());
        syn.seq = SeqNum(seq);
        syn.options.timestamps = Some(Timestamps { val, echo: 0 });
        let verdict = table.handle_segment(now, &to_peer.reversed(), &syn, 0);
        assert_eq!(
            matches!(verdict, Verdict::Reopen(_)),
            reopens,
            "{val} {seq}"
        );
        assert!(table.contains(&to_peer), "until somebody takes the SYN");
        let ack = table.acknowledge(now, &to_peer.reversed(), &syn);
        assert_eq!(ack.map(|ack| ack.flags), Some(Flags::ACK));
    }
}

#[test]
fn our_own_ports_are_reused_only_after_a_second() {
    let now = Instant::now();
    let (mut table, to_peer, entry) = resting(now);
    assert!(!table.reuse(now, &to_peer));
    assert!(table.reuse(now + Duration::from_secs(1), &to_peer));
    assert!(table.is_empty());
    table.insert(
        now,
        to_peer,
        TimeWaitEntry {
            timestamps: None,
            ..entry
        },
    );
    assert!(!table.reuse(now + Duration::from_secs(30), &to_peer));
}

/// A flow that the NIC finishes: its port is not free, and its segments are not answered here.
#[test]
fn a_withheld_flow_keeps_its_port_only() {
    let now = Instant::now();
    for has_timestamps in [true, false] {
        let (mut table, to_peer, entry) = resting(now);
        table.withhold(now, to_peer, has_timestamps);
        assert_eq!((table.len(), table.contains(&to_peer)), (1, true));
        let fin = Header {
            seq: entry.rcv_nxt - 1,
            ack: entry.snd_nxt,
            flags: Flags::FIN | Flags::ACK,
            ..Header::default()
        };
        let from_peer = to_peer.reversed();
        for segment in [fin, syn(&from_peer)] {
            let verdict = table.handle_segment(now, &from_peer, &segment, 0);
            assert_eq!(verdict, Verdict::Unknown);
            assert!(table.contains(&to_peer));
        }
        assert!(!table.reuse(now, &to_peer));
        let later = now + Duration::from_secs(1);
        assert_eq!(table.reuse(later, &to_peer), has_timestamps);
        table.handle_timeout(now + Duration::from_secs(60));
        assert!(table.is_empty());
    }
}

#[test]
fn the_time_wait_table_is_bounded() {
    let now = Instant::now();
    let (mut table, first, entry) = resting(now);
    for port in 2..10 {
        table.insert(now, flow(port), entry);
    }
    assert_eq!(table.len(), 3);
    assert!(!table.contains(&first));
}

/// A connection in TIME-WAIT, and the position of its FIN.
fn rests() -> (Peer, SeqNum) {
    let mut peer = Peer::modern();
    assert_eq!(peer.connection.time_wait(peer.now), None);
    peer.connection.close(peer.now);
    let fin = peer.sent().remove(0).header;
    peer.ack = fin.seq + 1;
    peer.deliver(&peer.header(Flags::FIN | Flags::ACK), 0);
    (peer, fin.seq)
}

/// RFC 9293 §3.10.7.4: it has nothing to receive, and says so.
#[test]
fn data_behind_the_end_is_answered() {
    let (mut peer, _) = rests();
    peer.seq += 1;
    assert_eq!(peer.sent().len(), 1);
    assert_eq!(peer.data(100).data, None);
    assert_eq!(peer.sent().len(), 1);
}

/// A connection's own TIME-WAIT moves to the table.
#[test]
fn a_connection_gives_what_the_table_needs() {
    let (peer, fin) = rests();
    let entry = peer.connection.time_wait(peer.now).expect("it rests");
    assert_eq!((entry.snd_nxt, entry.rcv_nxt), (fin + 1, peer.seq + 1));
    assert!(entry.timestamps.is_some());
    let _: Connection = peer.connection.clone();
}
