use proptest::prelude::*;

use super::*;

fn opening(flow: FlowKey, handshake: Handshake) -> Opening {
    Opening {
        flow,
        start: SeqNum(1),
        first: SeqNum(2),
        recent: 3,
        clock: 4,
        window: 5,
        handshake,
    }
}

fn address() -> impl Strategy<Value = (IpAddr, IpAddr)> {
    prop_oneof![
        any::<(u32, u32)>().prop_map(|(a, b)| (
            IpAddr::V4(Ipv4Addr::from(a % 3)),
            IpAddr::V4(Ipv4Addr::from(b))
        )),
        any::<(u128, u128)>().prop_map(|(a, b)| (
            IpAddr::V6(Ipv6Addr::from(a % 3)),
            IpAddr::V6(Ipv6Addr::from(b))
        )),
    ]
}

proptest! {
    /// A quasi control block says the same of a connection as was said to it, whatever came and went before.
    #[test]
    fn forty_bytes_hold_a_connection(
        connections in prop::collection::vec(
            (address(), any::<[u16; 2]>(), 0u16..20, prop::option::of(0u8..15), any::<(bool, bool)>()),
            1..60,
        )
    ) {
        let mut quasis = Quasis::default();
        let mut alive: Vec<(u32, FlowKey, Handshake)> = Vec::new();
        for ((local, remote), ports, mss, window_scale, (sack, remove)) in connections {
            let flow = FlowKey { src: (local, ports[0] % 4), dst: (remote, ports[1]) };
            let handshake = Handshake { mss: 500 + mss, window_scale, sack, timestamp: 4 };
            match quasis.insert(&opening(flow, handshake), Held::default()) {
                Some(index) => alive.push((index, flow, handshake)),
                None => prop_assert_eq!(quasis.mss.len(), MAX_MSS),
            }
            if remove && !alive.is_empty() {
                let (index, ..) = alive.swap_remove(usize::from(ports[1]) % alive.len());
                quasis.remove(index);
            }
            prop_assert_eq!(quasis.len(), alive.len());
            for (index, flow, handshake) in &alive {
                let (quasi, _) = quasis.get(*index);
                prop_assert_eq!(&quasis.flow(quasi), flow);
                prop_assert_eq!(&quasis.handshake(quasi, 0), handshake);
            }
        }
    }
}

#[test]
fn flags_are_apart_from_what_was_agreed() {
    let flags = [
        Flag::Accepted,
        Flag::PeerFin,
        Flag::Told,
        Flag::WantsRead,
        Flag::Closed,
        Flag::Handed,
        Flag::NoDelay,
    ];
    let mut quasis = Quasis::default();
    let flow = FlowKey {
        src: (IpAddr::V4(Ipv4Addr::LOCALHOST), 80),
        dst: (IpAddr::V4(Ipv4Addr::LOCALHOST), 4000),
    };
    let handshake = Handshake {
        mss: 1460,
        window_scale: None,
        sack: true,
        timestamp: 4,
    };
    let index = quasis
        .insert(&opening(flow, handshake), Held::default())
        .expect("room");
    for flag in flags {
        quasis.get_mut(index).0.set(flag, true);
        assert!(
            flags
                .iter()
                .all(|other| quasis.get(index).0.is(*other) == (*other == flag))
        );
        assert_eq!(quasis.handshake(quasis.get(index).0, 0), handshake);
        quasis.get_mut(index).0.set(flag, false);
    }
}
