//! Which multicast frames a function receives, as its host sets it.

use wire::ethernet::MacAddr;

use super::error::ErrorCode;
use super::layout::{self, View, slot};

/// Bytes of an address.
const ADDRESS_LEN: usize = 6;

/// Which multicast frames a function receives: those of some groups, or all. Unicast frames for its own address and broadcasts always come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MulticastFilter {
    /// The addresses as numbers; the first `len`, in order. `None`: all.
    groups: Option<Groups>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Groups {
    sorted: [u64; MulticastFilter::MAX],
    len: usize,
}

impl MulticastFilter {
    /// Most groups.
    pub const MAX: usize = 28;
    /// Everything.
    pub const ALL: MulticastFilter = MulticastFilter { groups: None };

    /// Frames for these groups alone; everything if they are more than [`MAX`](Self::MAX), or one of them is no group.
    #[must_use]
    pub fn of(groups: &[MacAddr]) -> MulticastFilter {
        let mut sorted = [u64::MAX; MulticastFilter::MAX];
        if groups.len() > sorted.len() || !groups.iter().all(|it| it.is_multicast()) {
            return MulticastFilter::ALL;
        }
        for (place, group) in sorted.iter_mut().zip(groups) {
            *place = group.number();
        }
        sorted[..groups.len()].sort_unstable();
        MulticastFilter {
            groups: Some(Groups {
                sorted,
                len: groups.len(),
            }),
        }
    }

    /// Whether a frame for this address, which is no function's, comes.
    #[inline]
    #[must_use]
    pub fn admits(&self, destination: MacAddr) -> bool {
        let Some(Groups { sorted, len }) = &self.groups else {
            return true;
        };
        let sorted = &sorted[..*len];
        destination == MacAddr::BROADCAST || sorted.binary_search(&destination.number()).is_ok()
    }

    pub(super) fn encode(&self) -> layout::SetFilter {
        let Some(Groups { sorted, len }) = &self.groups else {
            let mut slot = slot!(SetFilter);
            slot.head.flags = layout::SetFilter::ALL_MULTICAST;
            return slot;
        };
        let mut addresses = [0; MulticastFilter::MAX * ADDRESS_LEN];
        for (bytes, number) in addresses.as_chunks_mut().0.iter_mut().zip(&sorted[..*len]) {
            let [_, _, address @ ..] = number.to_be_bytes();
            *bytes = address;
        }
        slot!(SetFilter: count = *len as u32, addresses = addresses)
    }

    /// What a host has written.
    ///
    /// # Errors
    /// More groups than there may be, or with all of them any; an address that is no group's; bytes behind the addresses.
    pub(super) fn decode(
        flags: u8,
        words: &[u64; layout::SLOT_WORDS],
    ) -> Result<MulticastFilter, ErrorCode> {
        let slot = layout::SetFilter::of(words);
        let all = flags & layout::SetFilter::ALL_MULTICAST != 0;
        let most = if all { 0 } else { MulticastFilter::MAX };
        let count = usize::try_from(slot.count).unwrap_or(usize::MAX);
        if count > most {
            return Err(ErrorCode::BadParameters);
        }
        let addresses = slot.addresses.as_chunks::<ADDRESS_LEN>().0;
        let (listed, rest) = addresses.split_at(count);
        let is_clear = rest.iter().all(|address| *address == [0; ADDRESS_LEN]);
        let mut groups = [MacAddr::BROADCAST; MulticastFilter::MAX];
        for (group, address) in groups.iter_mut().zip(listed) {
            *group = MacAddr(*address);
        }
        let filter = match all {
            true => MulticastFilter::ALL,
            false => MulticastFilter::of(&groups[..count]),
        };
        // Their number is checked above. So if a list became `ALL`, one of its addresses is not a group's.
        let is_meant = all == (filter == MulticastFilter::ALL);
        match is_clear && is_meant {
            true => Ok(filter),
            false => Err(ErrorCode::BadParameters),
        }
    }
}
