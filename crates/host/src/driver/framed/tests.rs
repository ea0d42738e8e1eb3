use std::sync::Arc;

use nic::ring::{Region, RegionId};
use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::memory::{Arena, ArenaLayout, Limits, Purpose};

const CONTENT: Slice = Slice {
    region: RegionId(7),
    offset: 1000,
    len: 0,
};

fn layout() -> impl Strategy<Value = FrameLayout> {
    let lens = (1..20u8, 1..20u8, 1..60u16);
    lens.prop_map(|(header, trailer, content)| FrameLayout {
        header,
        trailer,
        content,
    })
}

/// A place in memory for each byte.
type Places = Vec<(u16, u64)>;

fn places(framed: &Framed, offset: u32, len: u32) -> Places {
    let mut places = Vec::new();
    framed.parts(offset, len, |part| {
        let slice = part.slice();
        assert!(slice.len > 0);
        places.extend((0..u64::from(slice.len)).map(|at| (slice.region.0, slice.offset + at)));
    });
    places
}

/// Messages, and the place of each of their bytes.
fn messages(layout: FrameLayout, count: u32) -> (Framed, Places) {
    let blocks = ArenaLayout {
        header: 1,
        packet: 1,
        record: 1,
        large: 1,
    };
    let region = Arc::new(Region::anonymous(blocks.bytes() as usize));
    let arena = Arena::new(region, RegionId(3), blocks, Limits::NONE);
    let mut around = arena
        .allocate(Purpose::Queued, count * layout.around())
        .expect("it is free");
    around.truncate(count * layout.around());
    let content = Slice {
        len: count * u32::from(layout.content),
        ..CONTENT
    };
    let (mut around_at, mut content_at) = (around.slice().offset.., content.offset..);
    let mut expected = Vec::new();
    for _ in 0..count {
        expected.extend(
            around_at
                .by_ref()
                .take(layout.header.into())
                .map(|at| (3, at)),
        );
        expected.extend(
            content_at
                .by_ref()
                .take(layout.content.into())
                .map(|at| (7, at)),
        );
        expected.extend(
            around_at
                .by_ref()
                .take(layout.trailer.into())
                .map(|at| (3, at)),
        );
    }
    (Framed::new(content, around, layout), expected)
}

proptest! {
    #[test]
    fn every_byte_keeps_its_place_however_the_messages_are_cut(
        layout in layout(),
        count in 1..9u32,
        cuts in vec(any::<u32>(), 0..6),
        range in any::<(u32, u32)>(),
    ) {
        let (whole, mut expected) = messages(layout, count);
        prop_assert_eq!(whole.len(), count * layout.message());
        let mut pieces = vec![whole];
        for cut in cuts {
            let last = pieces.last_mut().expect("there is one");
            if last.len() > 1 {
                let rest = last.split_off(1 + cut % (last.len() - 1));
                pieces.push(rest);
            }
        }
        for piece in &pieces {
            let others = expected.split_off(piece.len() as usize);
            prop_assert_eq!(&places(piece, 0, piece.len()), &expected);
            let from = range.0 % piece.len();
            let len = 1 + range.1 % (piece.len() - from);
            let part = &expected[from as usize..(from + len) as usize];
            prop_assert_eq!(&places(piece, from, len)[..], part);
            let mut ends = vec![from];
            piece.slices(from, piece.len() - from, |slice| ends.push(ends[ends.len() - 1] + slice.len));
            let most = 1 + range.1 as usize % 20;
            let counted = most.min(ends.len() - 1);
            prop_assert_eq!(piece.pieces(from, most), (counted, ends[counted]));
            let held: u64 = expected.iter().filter(|(region, _)| *region == 7).count() as u64;
            prop_assert_eq!(piece.content().map_or(0, |it| u64::from(it.len)), held);
            expected = others;
        }
        prop_assert!(expected.is_empty());
    }
}
