//! Explicit congestion notification where one of the connections has it, or both (RFC 3168).

use testkit::frames;
use wire::Ecn;
use wire::tcp::Flags;

use super::rig::{A, ACK, B, Left, Rig, splice};

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
