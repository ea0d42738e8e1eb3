//! Handshakes that go well.

use std::net::Ipv4Addr;
use std::time::Duration;

use proptest::prelude::*;
use wire::SeqNum;
use wire::tcp::{Flags, Options, Timestamps};

use super::rig::{Reported, Rig, ack, flow, options, parse, syn, to_host};
use nic::FrameMeta;
use nic::ring::accel::{Established, ListenRuleId, ListenerOptions};

#[test]
fn a_connection_is_handed_up_with_its_first_data() {
    for v6 in [false, true] {
        let mut rig = Rig::listening(options());
        let flow = flow(v6, 5000);
        let (syn, answer) = rig.shake(&flow);
        assert_eq!(
            rig.reported(0),
            [],
            "nobody hears of a half-open connection"
        );
        rig.wait(Duration::from_millis(30));
        let mut data = ack(&syn, &answer);
        data.flags |= Flags::PSH;
        let request = to_host(&flow, &data, b"GET / HTTP/1.1");
        rig.receive(&request);
        let reported = rig.reported(0);
        let [Reported::Established(established), Reported::Packet(packet)] = &reported[..] else {
            panic!("{reported:?}")
        };
        let expected = Established {
            rule: ListenRuleId(u16::from(v6)),
            mss: 1460,
            window_scale: Some(7),
            sack: true,
            timestamp: established.timestamp,
        };
        assert_eq!((*established, packet), (expected, &request));
        let sent = answer.options.timestamps.unwrap().val;
        assert!((30..62).contains(&established.timestamp.wrapping_sub(sent)));
        assert_eq!(rig.sent(), Vec::<Vec<u8>>::new(), "the host answers");
        assert_eq!(rig.nic.counters().accel_established, 1);
    }
}

#[test]
fn a_pure_ack_opens_a_connection_unless_its_listener_waits_for_data() {
    for defer in [false, true] {
        let mut rig = Rig::listening(ListenerOptions { defer, ..options() });
        let flow = flow(false, 5000);
        let (syn, answer) = rig.shake(&flow);
        let pure = ack(&syn, &answer);
        rig.receive(&to_host(&flow, &pure, &[]));
        assert_eq!(rig.reported(0).len(), if defer { 0 } else { 2 });
        assert_eq!(rig.nic.counters().accel_acks_deferred, u64::from(defer));
        // The first data, or FIN, brings the cookie too; and again if it is sent again.
        for _ in 0..2 {
            rig.receive(&to_host(&flow, &pure, b"x"));
            let reported = rig.reported(0);
            assert!(matches!(
                reported[..],
                [Reported::Established(_), Reported::Packet(_)]
            ));
        }
        let mut fin = pure;
        fin.flags |= Flags::FIN;
        rig.receive(&to_host(&flow, &fin, &[]));
        assert_eq!(rig.reported(0).len(), 2);
        // What comes later does not, and is passed up as ever.
        let mut later = pure;
        later.seq += 1;
        rig.receive(&to_host(&flow, &later, b"y"));
        assert!(matches!(rig.reported(0)[..], [Reported::Packet(_)]));
    }
}

#[test]
fn packets_keep_their_order_around_one_that_opens_a_connection() {
    let mut rig = Rig::listening(options());
    let flow = flow(false, 5000);
    let (syn, answer) = rig.shake(&flow);
    let first = ack(&syn, &answer);
    let mut second = first;
    second.seq += 100;
    // All in one batch. The second segment opens nothing, and waits for more of its kind to be coalesced with.
    for header in [&first, &second, &first] {
        let frame = to_host(&flow, header, &[1; 100]);
        rig.nic.handle_frame(rig.now, &frame, FrameMeta::default());
    }
    rig.nic.flush(rig.now);
    let reported = rig.reported(0);
    let [
        Reported::Established(_),
        Reported::Packet(a),
        Reported::Packet(b),
        Reported::Established(_),
        Reported::Packet(c),
    ] = &reported[..]
    else {
        panic!("{reported:?}")
    };
    let seqs = [a, b, c].map(|frame| parse(frame).tcp.seq);
    assert_eq!(seqs, [first.seq, second.seq, first.seq]);
}

#[test]
fn a_wire_that_makes_checksums_gets_syn_acks_with_them() {
    let mut rig = Rig::with(1, |config| config.wire.checksum = true);
    rig.listen(0, 0, Ipv4Addr::UNSPECIFIED.into(), options());
    let flow = flow(false, 5000);
    rig.shake(&flow);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// Any SYN with timestamps is answered with what both sides offer, and its ACK brings all of it back.
    #[test]
    fn what_both_sides_offer_is_agreed_on(
        v6: bool,
        (isn, val, port, window) in any::<(u32, u32, u16, u16)>(),
        mss in proptest::option::of(1u16..),
        scale in proptest::option::of(0u8..15),
        sack: bool,
        (our_mss, our_scale, our_sack) in (1u16.., proptest::option::of(0u8..15), any::<bool>()),
        later in 0u64..64_000,
    ) {
        let offer = ListenerOptions {
            mss: our_mss,
            window_scale: our_scale,
            sack: our_sack,
            ..options()
        };
        let mut rig = Rig::listening(offer);
        let flow = flow(v6, port.max(1));
        let mut syn = syn(&flow);
        syn.seq = SeqNum(isn);
        syn.window = window;
        syn.options = Options {
            mss,
            window_scale: scale,
            sack_permitted: sack,
            timestamps: Some(Timestamps { val, echo: 0 }),
            ..Options::default()
        };
        let answer = rig.answer(&to_host(&flow, &syn, &[]));
        prop_assert_eq!((answer.ack, answer.window), (syn.seq + 1, offer.window));
        let both = (scale.is_some() && our_scale.is_some(), sack && our_sack);
        prop_assert_eq!(answer.options.mss, Some(our_mss));
        prop_assert_eq!(answer.options.window_scale, our_scale.filter(|_| both.0));
        prop_assert_eq!(answer.options.sack_permitted, both.1);
        prop_assert_eq!(answer.options.timestamps.unwrap().echo, val);
        rig.wait(Duration::from_millis(later));
        rig.receive(&to_host(&flow, &ack(&syn, &answer), b"data"));
        let reported = rig.reported(0);
        let Reported::Established(established) = &reported[0] else {
            panic!("{reported:?}")
        };
        prop_assert!(established.mss <= mss.unwrap_or(536).max(536));
        prop_assert_eq!(established.window_scale, scale.filter(|_| both.0));
        prop_assert_eq!(established.sack, both.1);
    }
}

/// Of the packet that opens a connection too: the host may pass it on as it is.
#[test]
fn a_checksum_that_is_still_to_be_made_is_made_for_the_host() {
    let mut rig = Rig::listening(options());
    let flow = flow(false, 5000);
    let (syn, answer) = rig.shake(&flow);
    let whole = to_host(&flow, &ack(&syn, &answer), b"data");
    let mut frame = whole.clone();
    let len = (frame.len() - 34) as u32;
    let sum = wire::tcp::pseudo_header_sum(flow.src.0, flow.dst.0, len);
    wire::tcp::set_checksum(&mut frame[34..], sum.fold());
    let meta = FrameMeta {
        needs_checksum: Some((34, 16)),
        ..FrameMeta::default()
    };
    rig.nic.handle_frame(rig.now, &frame, meta);
    rig.nic.flush(rig.now);
    let reported = rig.reported(0);
    assert!(matches!(reported[0], Reported::Established(_)));
    assert_eq!(reported[1..], [Reported::Packet(whole)]);
}
