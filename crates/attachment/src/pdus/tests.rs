//! What is told and what is read of it.

use proptest::prelude::*;
use wire::SeqNum;

use super::{Full, Generation, Mapping, TAGS, Writer};
use crate::Slab;

fn mapping(generation: u16, page: u32, len: u32) -> Mapping {
    Mapping {
        generation: Generation(generation),
        page,
        len,
    }
}

#[test]
fn a_mapping_is_what_it_was_made_of() {
    let slab = Slab::create(1).unwrap();
    let pdus = slab.slot(0).unwrap().pdus();
    let largest = mapping(Generation::MAX, Mapping::MAX_PAGE, Mapping::MAX_LEN);
    pdus.map(TAGS - 1, largest);
    pdus.map(0, mapping(1, 7, 512));
    pdus.map(0, mapping(2, 8, 1024));
    pdus.map(64, mapping(5, 0, 0));
    let mut changes = Vec::new();
    pdus.take_changes(|tag, mapping| changes.push((tag, mapping)));
    let expected = [
        (0, Some(mapping(2, 8, 1024))),
        (64, Some(mapping(5, 0, 0))),
        (TAGS - 1, Some(largest)),
    ];
    assert_eq!(changes, expected);
    pdus.take_changes(|tag, _| panic!("{tag} has not changed"));
}

#[test]
fn an_ended_mapping_is_told_of_its_generation_only() {
    let slab = Slab::create(1).unwrap();
    let pdus = slab.slot(0).unwrap().pdus();
    let (first, second) = (Generation::FIRST, Generation::FIRST.next());
    assert_eq!(pdus.ended_mapping(5, first), None);
    pdus.end_mapping(5, first, Mapping::MAX_LEN);
    assert_eq!(pdus.ended_mapping(5, first), Some(Mapping::MAX_LEN));
    assert_eq!(pdus.ended_mapping(5, second), None);
    assert_eq!(pdus.ended_mapping(6, first), None);
}

#[test]
fn a_generation_is_never_none() {
    let mut generation = Generation::FIRST;
    for _ in 0..2 * Generation::MAX {
        generation = generation.next();
        let word = mapping(generation.0, 0, 0).to_word();
        assert_eq!(Mapping::from_word(word).unwrap().generation, generation);
    }
}

#[test]
fn doubt_finds_room_when_nothing_else_does() {
    let slab = Slab::create(1).unwrap();
    let pdus = slab.slot(0).unwrap().pdus();
    let mut writer = Writer::default();
    let mut at = SeqNum(u32::MAX - 100);
    while writer.placed(pdus, (at, 1), Generation::FIRST).is_ok() {
        at += 2;
    }
    assert!(writer.is_low() && !Writer::may_go_on(pdus));
    assert_eq!(writer.checked(pdus, (at, 1)), Err(Full));
    assert_eq!(writer.doubtful(pdus, (at, 1)), Ok(()));
    pdus.clear_before(at);
    assert!(Writer::may_go_on(pdus));
    assert!(pdus.span(at, 10).doubtful);
}

proptest! {
    /// Whatever is told, byte by byte the same is read.
    #[test]
    fn what_is_told_is_read(
        start in any::<u32>(),
        told in proptest::collection::vec((0u32..3000, 1u32..700, 0u16..3), 0..40),
        cleared in 0u32..3000,
    ) {
        let slab = Slab::create(1).unwrap();
        let pdus = slab.slot(0).unwrap().pdus();
        let mut writer = Writer::default();
        let base = SeqNum(start);
        let mut model = vec![(None, false, false); 4000];
        for (from, len, kind) in told {
            let range = from as usize..(from + len) as usize;
            // The NIC places and checks each byte once.
            let is_new = |place: &(Option<Generation>, bool, bool)| match kind {
                0 => place.0.is_none(),
                1 => !place.1,
                _ => true,
            };
            if !model[range.clone()].iter().all(is_new) {
                continue;
            }
            let bytes = (base + from, len);
            let told = match kind {
                0 => writer.placed(pdus, bytes, Generation(3)),
                1 => writer.checked(pdus, bytes),
                _ => writer.doubtful(pdus, bytes),
            };
            prop_assert_eq!(told, Ok(()));
            for place in &mut model[range] {
                match kind {
                    0 => place.0 = Some(Generation(3)),
                    1 => place.1 = true,
                    _ => place.2 = true,
                }
            }
        }
        pdus.clear_before(base + cleared);
        let mut at = cleared;
        while at < 4000 {
            let span = pdus.span(base + at, 4000 - at);
            prop_assert!(span.len > 0 && at + span.len <= 4000);
            for (placed, checked, doubtful) in &model[at as usize..(at + span.len) as usize] {
                let expected = match doubtful {
                    true => (None, false, true),
                    false => (*placed, *checked, false),
                };
                prop_assert_eq!((span.placed, span.checked, span.doubtful), expected);
            }
            at += span.len;
        }
    }
}
