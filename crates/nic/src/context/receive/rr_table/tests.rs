use proptest::prelude::*;

use super::*;
use crate::ring::RegionId;

fn placement(tag: u16, at: u32, len: u32) -> Placement {
    Placement {
        from: 24,
        to: 24 + len,
        tag,
        at,
    }
}

fn slice(offset: u64, len: u32) -> Slice {
    Slice {
        offset,
        len,
        region: RegionId(1),
    }
}

fn memory(table: &RrTable, claim: &Claim, from: u32, to: u32) -> Option<Vec<Slice>> {
    let mut parts = Vec::new();
    let valid = table.memory(claim, from..to, |part| {
        parts.push(part);
        true
    });
    valid.then_some(parts)
}

#[test]
fn a_tag_is_mapped_once_at_a_time_and_its_claims_end_with_the_mapping() {
    let mut table = RrTable::new(4);
    assert_eq!(table.map(4, &[slice(0, 10)]), Err(ErrorCode::OverQuota));
    assert_eq!(table.unmap(4), Err(ErrorCode::OverQuota));
    assert_eq!(table.unmap(3), Err(ErrorCode::TagNotMapped));
    assert_eq!(table.map(3, &[]), Err(ErrorCode::BadLength));
    assert_eq!(table.map(3, &[slice(0, 10)]), Ok(()));
    assert_eq!(table.map(3, &[slice(50, 10)]), Err(ErrorCode::TagMapped));
    let claim = table.claim(placement(3, 0, 10)).unwrap();
    assert_eq!(memory(&table, &claim, 24, 34), Some(vec![slice(0, 10)]));
    assert_eq!(table.unmap(3), Ok(()));
    assert_eq!(memory(&table, &claim, 24, 34), None);
    assert!(table.claim(placement(3, 0, 10)).is_none());
    // Mapped again, by the same memory of the table.
    assert_eq!(table.map(3, &[slice(50, 10)]), Ok(()));
    assert_eq!(memory(&table, &claim, 24, 34), None);
    assert_eq!(table.entries.len(), 1);
}

#[test]
fn data_beyond_the_buffer_or_before_its_last_claim_are_refused() {
    let mut table = RrTable::new(1);
    table.map(0, &[slice(0, 60), slice(100, 40)]).unwrap();
    assert!(table.claim(placement(0, 0, 101)).is_none());
    assert!(table.claim(placement(0, 100, 1)).is_none());
    assert!(table.claim(placement(0, u32::MAX, 2)).is_none());
    assert!(table.claim(placement(1, 0, 2)).is_none());
    assert!(table.claim(placement(u16::MAX, 0, 2)).is_none());
    assert!(table.claim(placement(0, 20, 30)).is_some());
    assert!(table.claim(placement(0, 0, 20)).is_none());
    assert!(table.claim(placement(0, 49, 1)).is_none());
    assert!(table.claim(placement(0, 50, 50)).is_some());
}

proptest! {
    /// Against a buffer as one run of bytes: every byte of a claim is where it belongs.
    #[test]
    fn memory_is_found_in_scattered_buffers(
        lengths in prop::collection::vec(1u32..50, 1..=MAX_RR_SLICES),
        at in 0u32..400,
        len in 1u32..400,
        cut in any::<(u32, u32)>(),
    ) {
        let slices: Vec<Slice> = lengths
            .iter()
            .enumerate()
            .map(|(n, len)| slice(1000 * n as u64, *len))
            .collect();
        let flat: Vec<u64> = slices
            .iter()
            .flat_map(|slice| slice.offset..slice.offset + u64::from(slice.len))
            .collect();
        let mut table = RrTable::new(1);
        table.map(0, &slices).unwrap();
        let claim = table.claim(placement(0, at, len));
        prop_assert_eq!(claim.is_some(), (at + len) as usize <= flat.len());
        if let Some(claim) = claim {
            let (a, b) = (cut.0 % (len + 100), cut.1 % (len + 100));
            let Some((from, to)) = claim.covered(a.min(b), a.max(b)) else {
                return Ok(());
            };
            let found: Vec<u64> = memory(&table, &claim, from, to)
                .unwrap()
                .into_iter()
                .flat_map(|part| part.offset..part.offset + u64::from(part.len))
                .collect();
            let first = (at + from - 24) as usize;
            prop_assert_eq!(&found[..], &flat[first..first + (to - from) as usize]);
        }
    }
}
