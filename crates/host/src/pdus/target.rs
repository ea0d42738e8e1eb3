//! Where the data of the PDU in progress goes.

use nic::ring::Slice;

use super::Destination;

/// Where the data of the PDU in progress goes. It is asked for its bytes in order.
#[derive(Debug, Default)]
pub(super) struct Target {
    kind: Kind,
    slices: Vec<Slice>,
    /// The slice that the next byte belongs into, and where in it.
    next: (usize, u32),
    pub inline: Vec<u8>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Kind {
    #[default]
    Discard,
    Slices,
    Inline,
}

impl Target {
    /// Begins with a PDU's data. False when there is less room than data.
    pub fn begin(&mut self, destination: Destination<'_>, data_len: u32) -> bool {
        self.slices.clear();
        self.inline.clear();
        self.next = (0, 0);
        self.kind = match destination {
            Destination::Nothing | Destination::Discard => Kind::Discard,
            Destination::Inline => Kind::Inline,
            Destination::Slices(slices) => {
                self.slices.extend_from_slice(slices);
                let room: u64 = slices.iter().map(|slice| u64::from(slice.len)).sum();
                if room < u64::from(data_len) {
                    return false;
                }
                Kind::Slices
            }
        };
        true
    }

    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Where the next bytes belong that lie together, at most `most`.
    #[inline]
    pub fn room(&mut self, most: u32) -> Option<Slice> {
        let (mut index, mut offset) = self.next;
        while offset == self.slices.get(index)?.len {
            (index, offset) = (index + 1, 0);
        }
        self.next = (index, offset);
        let slice = self.slices[index];
        Some(Slice {
            offset: slice.offset + u64::from(offset),
            len: (slice.len - offset).min(most),
            ..slice
        })
    }

    /// So many bytes of the [room](Self::room) are filled.
    #[inline]
    pub fn fill(&mut self, len: u32) {
        self.next.1 += len;
    }

    /// The slices of what was received, from byte `from` on.
    pub fn slices_from(&self, from: u32, data_len: u32) -> impl Iterator<Item = Slice> + '_ {
        let mut skip = from;
        let mut left = data_len - from;
        self.slices.iter().filter_map(move |slice| {
            let skipped = skip.min(slice.len);
            skip -= skipped;
            let len = (slice.len - skipped).min(left);
            left -= len;
            (len > 0).then_some(Slice {
                offset: slice.offset + u64::from(skipped),
                len,
                ..*slice
            })
        })
    }
}
