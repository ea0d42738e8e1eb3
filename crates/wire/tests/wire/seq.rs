use proptest::prelude::*;
use wire::SeqNum;

#[test]
fn order_holds_across_the_wrap() {
    let before = SeqNum(u32::MAX - 1);
    let after = before + 3;
    assert_eq!(after, SeqNum(1));
    assert!(before.before(after) && after.after(before));
    assert!(before.at_or_before(before) && before.at_or_after(before));
    assert_eq!(after.diff(before), 3);
    assert_eq!(before.diff(after), -3);
    assert_eq!(before.max(after), after);
    assert_eq!(before.min(after), before);
    assert!(SeqNum(0).is_within(before, 3) && !SeqNum(1).is_within(before, 3));
}

proptest! {
    #[test]
    fn order_is_that_of_the_distances(start: u32, a in 0u32..1 << 31, b in 0u32..1 << 31) {
        let start = SeqNum(start);
        let (x, y) = (start + a, start + b);
        prop_assert_eq!(x.before(y), a < b);
        prop_assert_eq!(x.at_or_before(y), a <= b);
        prop_assert_eq!(x.after(y), a > b);
        prop_assert_eq!(x.at_or_after(y), a >= b);
        prop_assert_eq!(x.max(y), start + a.max(b));
        prop_assert_eq!(x.min(y), start + a.min(b));
        prop_assert_eq!(start.distance_to(x), a);
        prop_assert_eq!(x - a, start);
    }
}
