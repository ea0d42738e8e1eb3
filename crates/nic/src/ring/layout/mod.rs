//! How descriptors lie in memory: each is declared once, as the struct that a slot's words are viewed as.
//!
//! The declaration also makes the table of the struct's fields, which `docs/device.md` and `drivers/longshore.h` are
//! checked against, and the mask of the bits that are reserved.

#[macro_use]
mod declare;

mod image;
mod receive;
mod send;
mod table;
mod values;

use crate::features::Features;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

pub(super) use declare::{slot, value};
pub(super) use image::*;
pub(super) use receive::*;
pub(super) use send::*;
pub(super) use table::{Element, Reserved};
pub use table::{Field, Kind, Layout, Named, constants, layouts};
pub use values::ContextId;
pub(super) use values::*;

/// Words of a send slot: 64 bytes of descriptor and 128 of packet headers.
pub const SLOT_WORDS: usize = 24;
/// Words of a receive slot: 64 bytes.
pub(super) const RECV_WORDS: usize = 8;
/// Words of a fill slot.
pub(super) const FILL_WORDS: usize = size_of::<Slice>() / 8;

/// A struct that words of a slot may be viewed as.
pub(super) trait View: FromBytes + IntoBytes + Immutable + KnownLayout + Copy {
    /// The first words of a slot as this.
    fn of<const WORDS: usize>(words: &[u64; WORDS]) -> &Self {
        const { assert!(size_of::<Self>() <= WORDS * 8 && align_of::<Self>() <= 8) };
        match Self::ref_from_prefix(words.as_bytes()) {
            Ok((view, _)) => view,
            Err(_) => unreachable!("the words are as many, and aligned"),
        }
    }
}

impl<T: FromBytes + IntoBytes + Immutable + KnownLayout + Copy> View for T {}

/// What a send slot may be viewed as, by its opcode.
pub(super) trait SendSlot: View {
    const OPCODE: u8;
    const FORM: &'static Form;
    /// Slices in the slot itself.
    const SLICES: usize;

    /// The words of a slot with this, and zeros behind it.
    fn words(&self) -> [u64; SLOT_WORDS] {
        let mut words = [0; SLOT_WORDS];
        let bytes = self.as_bytes();
        words.as_mut_bytes()[..bytes.len()].copy_from_slice(bytes);
        words
    }
}

/// What the device must know of a kind of descriptor to take it off a ring.
#[derive(Debug)]
pub(super) struct Form {
    pub(super) layout: Layout,
    /// Bits that must be zero.
    reserved: [u64; SLOT_WORDS],
    /// They are in the first eight words.
    is_short: bool,
    /// First word of the slices, and how many there are at most.
    pub(super) slices: (usize, usize),
}

impl Form {
    pub(super) const fn new(layout: Layout) -> Form {
        let mut bytes = [0; SLOT_WORDS * 8];
        layout.mark_reserved(0, &mut bytes);
        bytes[1] = !layout.known_flags();
        if layout.opcode != Send::LAYOUT.opcode {
            // `header_len` and `mss` are a `Send`'s.
            (bytes[2], bytes[6], bytes[7]) = (0xff, 0xff, 0xff);
        }
        if layout.opcode == Continuation::LAYOUT.opcode {
            bytes[4] = 0xff;
        }
        let mut reserved = [0; SLOT_WORDS];
        let (mut word, mut is_short) = (0, true);
        while word < SLOT_WORDS {
            let mut eight = [0; 8];
            let mut byte = 0;
            while byte < 8 {
                eight[byte] = bytes[word * 8 + byte];
                byte += 1;
            }
            reserved[word] = u64::from_ne_bytes(eight);
            is_short &= word < 8 || reserved[word] == 0;
            word += 1;
        }
        Form {
            slices: match layout.slices() {
                Some((offset, count)) => (offset / 8, count),
                None => (0, 0),
            },
            layout,
            reserved,
            is_short,
        }
    }

    /// That of this opcode.
    pub(super) fn of(opcode: u8) -> Option<&'static Form> {
        FORMS.get(usize::from(opcode.wrapping_sub(1))).copied()
    }

    /// All of them, by ascending opcode.
    pub(super) fn all() -> impl Iterator<Item = &'static Form> {
        FORMS.iter().copied()
    }

    /// Whether a function with these features may use it.
    pub(super) fn is_allowed(&self, features: Features) -> bool {
        let needed = match self.layout.opcode {
            CreateContext::OPCODE..=ResyncResponse::OPCODE => Features::CONTEXTS,
            InstallListener::OPCODE..=ListenerCredit::OPCODE => Features::LISTENERS,
            Teardown::OPCODE => Features::TEARDOWNS,
            Splice::OPCODE | Unsplice::OPCODE | QuerySplice::OPCODE => Features::SPLICES,
            // For frames of flows that the function has given away.
            Reinject::OPCODE => (Features::LISTENERS)
                .union(Features::TEARDOWNS)
                .union(Features::SPLICES),
            ToeBegin::OPCODE..=ToeResume::OPCODE => Features::TOE,
            LoadResource::OPCODE | UnloadResource::OPCODE => Features::RESOURCES,
            SetRss::OPCODE | QueryRss::OPCODE => Features::RSS,
            SetFilter::OPCODE => Features::FILTER,
            _ => return true,
        };
        features.intersects(needed)
    }

    /// Words of the descriptor.
    pub(super) fn words(&self) -> usize {
        self.layout.size / 8
    }

    /// Whether all reserved bits are zero.
    #[inline]
    pub(super) fn is_clear(&self, words: &[u64; SLOT_WORDS]) -> bool {
        let (first, rest) = words.split_at(8);
        let (first_reserved, rest_reserved) = self.reserved.split_at(8);
        are_clear(first, first_reserved) && (self.is_short || are_clear(rest, rest_reserved))
    }
}

#[inline]
fn are_clear(words: &[u64], reserved: &[u64]) -> bool {
    let pairs = words.iter().zip(reserved);
    pairs.fold(0, |set, (word, reserved)| set | word & reserved) == 0
}

/// Sets all bits of a send slot to zero that its opcode reserves. For tests of a device: it gets further with such slots.
pub fn clear_reserved(words: &mut [u64; SLOT_WORDS]) {
    if let Some(form) = Form::of(words.as_bytes()[0]) {
        for (word, reserved) in words.iter_mut().zip(&form.reserved) {
            *word &= !reserved;
        }
    }
}
