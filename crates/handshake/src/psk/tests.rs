use std::sync::atomic::{AtomicUsize, Ordering};

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

/// The extension with these identities (RFC 8446 §4.2.11), binders left out.
fn extension(identities: &[Vec<u8>]) -> Vec<u8> {
    let mut list = Vec::new();
    for identity in identities {
        list.extend_from_slice(&(identity.len() as u16).to_be_bytes());
        list.extend_from_slice(identity);
        list.extend_from_slice(&[0; 4]);
    }
    let mut bytes = (list.len() as u16).to_be_bytes().to_vec();
    bytes.append(&mut list);
    bytes
}

proptest! {
    #[test]
    fn identities_are_found_behind_each_other(
        identities in vec(vec(any::<u8>(), 1..300), 0..5),
        binders in vec(any::<u8>(), 0..40),
    ) {
        let mut bytes = extension(&identities);
        bytes.extend_from_slice(&binders);
        prop_assert_eq!(offered_identities(&bytes), identities);
    }

    #[test]
    fn bytes_that_are_none_do_no_harm(bytes in vec(any::<u8>(), 0..80)) {
        let total: usize = offered_identities(&bytes).iter().map(|one| one.len() + 6).sum();
        prop_assert!(total <= bytes.len());
    }
}

#[test]
fn a_hello_with_a_thousand_identities_costs_a_few_lookups() {
    let identities: Vec<_> = (0..1000u16).map(|n| n.to_be_bytes().to_vec()).collect();
    let lookups = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&lookups);
    let lookup: PskLookup = Arc::new(move |_| {
        counted.fetch_add(1, Ordering::Relaxed);
        Err("never heard of it".to_owned())
    });
    let chosen = choose(&lookup, &extension(&identities));
    assert!(matches!(chosen, Err(UnknownPsk::Refused { .. })));
    assert_eq!(lookups.load(Ordering::Relaxed), MAX_IDENTITIES);
}

#[test]
fn a_key_does_not_show_in_debug_output() {
    let psk = Psk::new(b"name".to_vec(), &[77; 32], Algorithm::Aes128Gcm);
    let shown = format!("{psk:?}");
    assert!(shown.contains("name") && !shown.contains("77"), "{shown}");
}
