//! Explicit congestion notification where one of the connections has it, or both (RFC 3168).

use testkit::frames;
use wire::Ecn;
use wire::tcp::Flags;

use super::rig::{A, ACK, B, Left, Rig, splice};
use super::taking_back::{UNSPLICE, states};

const ECE: Flags = ACK.union(Flags::ECE);
const CWR: Flags = ACK.union(Flags::CWR);

/// A rig whose legs have ECN or not, over IPv4 or IPv6.
fn rig(ecn: [bool; 2], v6: bool) -> Rig {
    let mut one = splice();
    (one.a.ecn, one.b.ecn) = (ecn[A], ecn[B]);
    if v6 {
        for leg in [&mut one.a, &mut one.b] {
            for (address, _) in [&mut leg.flow.src, &mut leg.flow.dst] {
                if let std::net::IpAddr::V4(v4) = *address {
                    *address = v4.to_ipv6_mapped().into();
                }
            }
        }
    }
    Rig::with(one)
}

/// Brings a segment with that in its IP header; gives the one that leaves, if one does.
fn marked(rig: &mut Rig, side: usize, seq: u32, flags: Flags, ecn: Ecn) -> Option<Left> {
    let mut frame = rig.segment(side, seq, 0, flags, if seq > 0 { b"x" } else { b"" });
    frames::mark(&mut frame, ecn);
    let left = rig.frame(&frame);
    (!left.is_empty()).then(|| rig.one(1 - side, &left))
}

/// §6.1.3: the sender of what was marked hears so from the NIC, until it has reduced its window; the other leg hears of nothing.
#[test]
fn a_mark_on_the_leg_that_has_ecn_is_echoed_there() {
    for v6 in [false, true] {
        let mut rig = rig([true, false], v6);
        let left = marked(&mut rig, A, 1, ACK, Ecn::Ect0).expect("it goes on");
        assert_eq!((left.parsed.tcp.ecn, left.flags), (Ecn::NotEct, ACK));
        let left = marked(&mut rig, B, 0, ACK, Ecn::NotEct).expect("it goes on");
        assert_eq!(left.flags, ACK);

        let left = marked(&mut rig, A, 2, ACK, Ecn::Ce).expect("it goes on");
        assert_eq!((left.parsed.tcp.ecn, left.flags), (Ecn::NotEct, ACK));
        for seq in [0, 1] {
            let left = marked(&mut rig, B, seq, ACK, Ecn::NotEct).expect("it goes on");
            assert_eq!(left.flags, ECE);
        }
        // What the NIC itself acknowledges says so too.
        let left = rig.answered(A, 0u32.wrapping_sub(5), 0, ACK, b"bytes");
        assert_eq!(left.flags, ECE);

        let left = marked(&mut rig, A, 3, CWR, Ecn::Ect0).expect("it goes on");
        assert_eq!((left.parsed.tcp.ecn, left.flags), (Ecn::NotEct, ACK));
        let left = marked(&mut rig, B, 2, ACK, Ecn::NotEct).expect("it goes on");
        assert_eq!(left.flags, ACK);
        assert_eq!(rig.counters().accel_splice_dropped, 0);
    }
}

/// §6.1.1: what was not agreed on there is not sent there, nor heeded from there; a mark that cannot be told of is a loss.
#[test]
fn the_leg_without_ecn_has_none_of_it() {
    let mut rig = rig([true, false], false);
    let left = marked(&mut rig, A, 1, ECE.union(Flags::CWR), Ecn::Ect1).expect("it goes on");
    assert_eq!((left.parsed.tcp.ecn, left.flags), (Ecn::NotEct, ACK));
    let left = marked(&mut rig, B, 1, ECE.union(Flags::CWR), Ecn::Ect0).expect("it goes on");
    assert_eq!((left.parsed.tcp.ecn, left.flags), (Ecn::NotEct, ACK));
    assert_eq!(marked(&mut rig, B, 2, ACK, Ecn::Ce), None);
    assert_eq!(rig.counters().accel_splice_dropped, 1);
}

/// The peers tell each other.
#[test]
fn marks_and_what_is_said_of_them_pass_where_both_have_ecn() {
    let mut rig = rig([true, true], false);
    let left = marked(&mut rig, A, 1, CWR, Ecn::Ce).expect("it goes on");
    assert_eq!((left.parsed.tcp.ecn, left.flags), (Ecn::Ce, CWR));
    let left = marked(&mut rig, B, 0, ECE, Ecn::NotEct).expect("it goes on");
    assert_eq!((left.parsed.tcp.ecn, left.flags), (Ecn::NotEct, ECE));
}

/// A rig like [`rig`], whose leg A owes the peer an echo from before.
fn owing(ecn: [bool; 2]) -> Rig {
    let mut one = splice();
    (one.a.ecn, one.b.ecn) = (ecn[A], ecn[B]);
    one.a.ecn_echo = true;
    Rig::with(one)
}

/// §6.1.3: the sender of what was marked before the splice hears of it until it has reduced its window, whether the other leg has ECN or not.
#[test]
fn an_echo_that_is_owed_when_the_splice_begins_is_sent_until_it_is_heard() {
    for both in [false, true] {
        let mut rig = owing([true, both]);
        for seq in [0, 1] {
            let left = marked(&mut rig, B, seq, ACK, Ecn::NotEct).expect("it goes on");
            assert_eq!(left.flags, ECE);
        }
        // It is the peer's of A alone.
        let left = marked(&mut rig, A, 1, ACK, Ecn::Ect0).expect("it goes on");
        assert_eq!(left.flags, ACK);
        marked(&mut rig, A, 2, CWR, Ecn::Ect0).expect("it goes on");
        let left = marked(&mut rig, B, 2, ACK, Ecn::NotEct).expect("it goes on");
        assert_eq!(left.flags, ACK);
        // From here on it is as if nothing had been owed.
        marked(&mut rig, A, 3, ACK, Ecn::Ce).expect("it goes on");
        let left = marked(&mut rig, B, 3, ACK, Ecn::NotEct).expect("it goes on");
        assert_eq!(left.flags, if both { ACK } else { ECE });
    }
}

/// The host goes on with what the peer has not heard.
#[test]
fn an_echo_that_is_owed_when_the_splice_ends_is_the_hosts() {
    let owed = |rig: &mut Rig| {
        rig.post(&UNSPLICE);
        states(&rig.reported()).map(|state| state.ecn_echo)
    };
    for both in [false, true] {
        assert_eq!(owed(&mut rig([true, both], false)), [false, false]);
        assert_eq!(owed(&mut owing([true, both])), [true, false]);
    }
    // The NIC tells of marks.
    let mut ends = rig([true, false], false);
    let data = ends.segment(A, 0, 0, ACK, b"x");
    let mut data = data;
    frames::mark(&mut data, Ecn::Ce);
    ends.frame(&data);
    ends.forwarded(B, 0, 1, ACK, b"");
    assert_eq!(owed(&mut ends), [true, false]);
    // The other peer does, and has said that it was told.
    let mut told = rig([true, true], false);
    told.forwarded(B, 0, 0, ECE, b"");
    assert_eq!(owed(&mut told), [true, false]);
    let mut told = rig([true, true], false);
    told.forwarded(B, 0, 0, ECE, b"");
    told.forwarded(B, 0, 0, ACK, b"");
    assert_eq!(owed(&mut told), [false, false]);
}

/// §6.1.3: a peer that has reduced its window must not hear of the same mark again.
#[test]
fn an_echo_is_owed_no_more_once_the_peer_has_reduced_its_window() {
    let reduced = || {
        let mut rig = rig([true, true], false);
        rig.forwarded(B, 0, 0, ECE, b"");
        rig.forwarded(A, 0, 0, CWR, b"");
        rig
    };
    let owed = |mut rig: Rig| {
        rig.post(&UNSPLICE);
        states(&rig.reported()).map(|state| state.ecn_echo)
    };
    assert_eq!(owed(reduced()), [false, false]);
    // The other peer has not had it, or tells of another mark.
    let mut again = reduced();
    again.forwarded(B, 0, 0, ECE, b"");
    assert_eq!(owed(again), [true, false]);
}

/// An acknowledgement from before, which packets of the other leg have overtaken, says nothing of now.
#[test]
fn an_echo_is_owed_as_the_latest_acknowledgement_says() {
    for (latest, late, owed) in [(ECE, ACK, true), (ACK, ECE, false)] {
        let mut rig = rig([true, true], false);
        rig.forwarded(A, 0, 0, ACK, b"data");
        rig.forwarded(B, 0, 4, latest, b"");
        rig.forwarded(B, 0, 2, late, b"");
        rig.post(&UNSPLICE);
        let states = states(&rig.reported());
        assert_eq!(states.map(|state| state.ecn_echo), [owed, false]);
    }
}
