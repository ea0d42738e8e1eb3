use super::*;

fn flow(port: u16) -> FlowKey {
    FlowKey {
        src: (IpAddr::from([10, 0, 0, 1]), port),
        dst: (IpAddr::from([10, 0, 0, 2]), 443),
    }
}

#[test]
fn flows_spread_evenly_over_the_queues() {
    let hasher = FlowHasher::new(&[7; 16]);
    let rss = Rss::new(4);
    let mut packets = [0u32; 4];
    for port in 0..4096 {
        packets[usize::from(rss.queue(hasher.hash(&flow(port))))] += 1;
    }
    for count in packets {
        assert!((800..1250).contains(&count), "{packets:?}");
    }
}

#[test]
fn hash_depends_on_secret_and_on_direction() {
    let hasher = FlowHasher::new(&[7; 16]);
    let reversed = FlowKey {
        src: flow(1).dst,
        dst: flow(1).src,
    };
    assert_ne!(hasher.hash(&flow(1)), hasher.hash(&reversed));
    assert_ne!(
        hasher.hash(&flow(1)),
        FlowHasher::new(&[8; 16]).hash(&flow(1))
    );
    assert_eq!(hasher.hash(&flow(1)), hasher.hash(&flow(1)));
}

#[test]
fn addresses_of_both_families_hash() {
    let hasher = FlowHasher::new(&[7; 16]);
    let six = FlowKey {
        src: (IpAddr::from([1u16, 2, 3, 4, 5, 6, 7, 8]), 1),
        dst: (IpAddr::from([1u16, 2, 3, 4, 5, 6, 7, 9]), 1),
    };
    assert_ne!(hasher.hash(&six), hasher.hash(&flow(1)));
}
