use super::*;
use crate::ring::RegionId;

fn part(at: u32, offset: u64, len: u32) -> Placed {
    Placed {
        at,
        slice: Slice {
            offset,
            len,
            region: RegionId(2),
        },
        tag: 7,
    }
}

#[test]
fn parts_that_continue_each_other_in_payload_and_memory_are_one() {
    let mut list = PlacedList::default();
    assert!(list.push(part(10, 100, 5)));
    assert!(list.push(part(15, 105, 5)));
    assert!(list.push(part(20, 200, 5)));
    assert!(list.push(part(30, 205, 5)));
    let other_tag = Placed {
        tag: 8,
        ..part(35, 210, 5)
    };
    assert!(list.push(other_tag));
    let expected = [
        part(10, 100, 10),
        part(20, 200, 5),
        part(30, 205, 5),
        other_tag,
    ];
    assert_eq!(list.as_slice(), expected);
    assert_eq!(list.bytes(), 25);
}

#[test]
fn a_list_takes_what_it_may_and_no_more() {
    let mut list = PlacedList::default();
    list.set_limit(2);
    assert!(list.push(part(0, 0, 1)));
    assert!(list.push(part(10, 50, 1)));
    assert!(!list.push(part(20, 100, 1)));
    assert!(list.push(part(11, 51, 1)), "what continues takes no room");
    list.set_limit(u32::MAX);
    for n in 3..=MAX_PLACED as u32 {
        assert!(list.push(part(100 * n, 1000 * u64::from(n), 1)));
    }
    assert!(!list.push(part(9000, 1 << 30, 1)));
}

#[test]
fn a_closed_list_takes_nothing_until_it_is_cleared() {
    let mut list = PlacedList::default();
    assert!(list.push(part(0, 0, 1)));
    list.close(true);
    assert!(!list.push(part(1, 1, 1)), "also not what continues");
    list.clear();
    assert!(list.push(part(1, 1, 1)));
    assert_eq!(list.as_slice(), [part(1, 1, 1)]);
}
