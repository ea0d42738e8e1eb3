//! Tests of the neighbour cache.

use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

use wire::ethernet::MacAddr;

use super::{Neighbours, Resolution, Solicit};

const MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 9]);

fn address(host: u32) -> IpAddr {
    IpAddr::V4(Ipv4Addr::from(0x0a00_0000 + host))
}

fn polled(cache: &mut Neighbours, now: Instant) -> (Vec<Solicit>, Vec<IpAddr>) {
    let (mut asked, mut failed) = (Vec::new(), Vec::new());
    cache.poll(
        now,
        |solicit| asked.push(solicit),
        |address| failed.push(address),
    );
    (asked, failed)
}

#[test]
fn an_unknown_address_is_asked_for_three_times_and_given_up() {
    let mut cache = Neighbours::new(8, &[1; 16]);
    let now = Instant::now();
    assert_eq!(cache.resolve(now, address(1)), Resolution::Pending);
    for second in 0..3 {
        let (asked, failed) = polled(&mut cache, now + Duration::from_secs(second));
        assert_eq!(
            asked,
            [Solicit {
                target: address(1),
                unicast: None
            }]
        );
        assert!(failed.is_empty());
    }
    let (asked, failed) = polled(&mut cache, now + Duration::from_secs(3));
    assert!(asked.is_empty());
    assert_eq!(failed, [address(1)]);
    assert_eq!(cache.poll_timeout(), None);
}

#[test]
fn an_answer_is_believed_only_if_it_was_asked_for() {
    let mut cache = Neighbours::new(8, &[1; 16]);
    let now = Instant::now();
    assert!(!cache.answered(now, address(1), Some(MAC), true, true));
    assert_eq!(cache.peek(address(1)), None);
    cache.resolve(now, address(1));
    assert!(cache.answered(now, address(1), Some(MAC), true, true));
    assert!(matches!(cache.resolve(now, address(1)), Resolution::Known(_, mac) if mac == MAC));
}

#[test]
fn a_neighbour_that_was_not_heard_of_is_probed_where_it_was() {
    let mut cache = Neighbours::new(8, &[1; 16]);
    let now = Instant::now();
    cache.resolve(now, address(1));
    cache.answered(now, address(1), Some(MAC), true, true);
    let later = now + Duration::from_secs(31);
    let Resolution::Known(hop, _) = cache.resolve(later, address(1)) else {
        panic!("known still")
    };
    let (asked, _) = polled(&mut cache, later + Duration::from_secs(5));
    assert_eq!(
        asked,
        [Solicit {
            target: address(1),
            unicast: Some(MAC)
        }]
    );
    cache.confirm(hop, later + Duration::from_secs(5));
    let (asked, failed) = polled(&mut cache, later + Duration::from_secs(20));
    assert!(asked.is_empty() && failed.is_empty());
}

#[test]
fn the_cache_is_bounded_and_what_is_idle_makes_room() {
    let mut cache = Neighbours::new(4, &[1; 16]);
    let now = Instant::now();
    for host in 0..100 {
        cache.asked(now + Duration::from_millis(host), address(host as u32), MAC);
    }
    assert_eq!(
        (0..100)
            .filter(|&host| cache.peek(address(host)).is_some())
            .count(),
        4
    );
}

/// This host asks for each address of the link that SYNs come from.
#[test]
fn addresses_that_nobody_has_leave_room_for_neighbours_in_use() {
    let mut cache = Neighbours::new(8, &[1; 16]);
    let mut now = Instant::now();
    for host in 0..4 {
        cache.resolve(now, address(host));
        cache.answered(now, address(host), Some(MAC), true, true);
    }
    // All of them may give way.
    now += Duration::from_secs(60);
    for host in 200..204 {
        assert_eq!(cache.resolve(now, address(host)), Resolution::Pending);
    }
    assert_eq!(cache.resolve(now, address(204)), Resolution::Full);
    assert!((0..4).all(|host| cache.peek(address(host)).is_some()));
    // One that says itself who it is needs no asking.
    cache.asked(now, address(5), MAC);
    assert_eq!(cache.peek(address(5)), Some(MAC));
    // The next that is wanted has its turn once these were given up.
    for _ in 0..4 {
        now += Duration::from_secs(1);
        polled(&mut cache, now);
    }
    assert_eq!(cache.resolve(now, address(204)), Resolution::Pending);
}

#[test]
fn a_hop_is_void_once_its_entry_has_another_owner() {
    let mut cache = Neighbours::new(1, &[1; 16]);
    let now = Instant::now();
    cache.resolve(now, address(1));
    cache.answered(now, address(1), Some(MAC), true, true);
    let Resolution::Known(hop, _) = cache.resolve(now, address(1)) else {
        panic!("known")
    };
    assert_eq!(cache.mac(hop, now), Some(MAC));
    let later = now + Duration::from_secs(60);
    cache.asked(later, address(2), MAC);
    assert_eq!(cache.mac(hop, later), None);
    assert_eq!(cache.mac_now(hop), None);
}
