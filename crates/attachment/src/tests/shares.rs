//! No tenant keeps another one from a resource.

use proptest::prelude::*;

use crate::Shares;

/// What a tenant gets that asks for one unit after the other.
fn greed(shares: &mut Shares, tenant: u32) -> u64 {
    while shares.take(tenant, 1) {}
    shares.held(tenant)
}

#[test]
fn one_tenant_stops_at_half_and_the_next_ones_find_room() {
    let mut shares = Shares::new(1000);
    assert_eq!(greed(&mut shares, 0), 500, "root too");
    assert_eq!(greed(&mut shares, 1), 250);
    assert_eq!(greed(&mut shares, 2), 125);
    shares.give(0, 500);
    assert_eq!(greed(&mut shares, 1), 438, "what is given back is for all");
}

#[test]
fn a_lot_is_as_much_as_its_units() {
    let mut shares = Shares::new(1000);
    assert!(!shares.take(7, 501));
    assert!(shares.take(7, 500));
    assert!(!shares.take(7, 1));
    assert!(!shares.take(8, u64::MAX));
    assert!(shares.take(7, 0), "nothing is always there");
    assert!(Shares::new(1).take(7, 1), "the only one");
}

#[test]
fn what_was_held_before_is_held_again() {
    let mut shares = Shares::new(10);
    shares.force(7, 9);
    assert_eq!((shares.held(7), shares.left()), (9, 1));
    assert!(shares.take(8, 1));
    shares.force(9, 3);
    assert_eq!((shares.held(9), shares.left()), (0, 0));
}

proptest! {
    /// Whatever others take and give: units are neither lost nor made, and of those that are left a tenant without any gets half.
    #[test]
    fn a_tenant_that_holds_nothing_gets_half_of_what_is_left(
        total in 1u64..5000,
        steps in prop::collection::vec((0u32..6, 0u64..400, any::<bool>()), 0..200),
    ) {
        let mut shares = Shares::new(total);
        for (tenant, amount, gives) in steps {
            match gives {
                true => shares.give(tenant, amount),
                false => {
                    let admitted = shares.admits(tenant, amount);
                    prop_assert_eq!(shares.take(tenant, amount), admitted);
                }
            }
            let held: u64 = (0..6).map(|tenant| shares.held(tenant)).sum();
            prop_assert_eq!(held + shares.left(), total);
            prop_assert!(shares.admits(99, shares.left().div_ceil(2)));
        }
        let (left, most) = (shares.left(), greed(&mut shares, 99));
        prop_assert_eq!(most, left.div_ceil(2));
    }
}
