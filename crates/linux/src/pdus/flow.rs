//! One connection that carries PDUs.

use attachment::pdus::{Full, Generation, Mapping, Pdus as Shared, Writer};
use attachment::{Asking, OffloadState, PAGE, Questions, SlotRef};
use driver::PlacedPart;
use l5p::Direction;
use l5p::nvme::Parameters;
use nic::ring::{ContextId, RegionId, Slice};
use wire::{FlowKey, SeqNum};

use super::passed::Forwarded;
use crate::acknowledged::Acknowledged;
use crate::following::{Followed, Following};
use crate::tracking::Located;

/// The state of one connection.
#[derive(Debug)]
pub(crate) struct Flow {
    /// From Linux to the peer.
    pub(super) key: FlowKey,
    pub(super) cookie: u64,
    /// The user id that its library has.
    pub(super) tenant: u32,
    pub(super) slot: SlotRef,
    pub(super) parameters: Parameters,
    /// Where data may go, and how many bytes that has.
    pub(super) region: RegionId,
    pub(super) memory_len: u64,
    pub(super) following: Following,
    /// Its entry in the table of connections that outlive the NIC, if that is its own.
    pub(super) entry: Option<u32>,
    /// A segment has come that ends the connection, or one of its directions.
    pub(super) is_ending: bool,
    asking: Asking,
    writer: Writer,
    tags: Vec<Tag>,
    passed: Forwarded,
}

/// What is mapped to a tag.
#[derive(Clone, Copy, Debug, Default)]
struct Tag {
    mapped: Option<(Generation, ContextId)>,
    /// Bytes that the device has written for it.
    placed: u32,
}

/// What a change of a mapping means for the device, in this order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Change {
    /// Unmap the tag.
    pub(super) unmaps: Option<ContextId>,
    /// Map it to this.
    pub(super) maps: Option<(ContextId, Slice)>,
    /// Tell when nothing more is written for this mapping.
    pub(super) ends: Option<Generation>,
}

/// A mapping of memory that there is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OutOfBounds;

/// What became of a frame for Linux.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Admitted {
    /// Linux had got some of its bytes before.
    pub(super) is_second: bool,
    /// What was done of it could not be reported.
    pub(super) is_unreported: bool,
}

impl Flow {
    pub(super) fn new(
        (located, queued): (&Located, SeqNum),
        slot: SlotRef,
        parameters: Parameters,
        region: RegionId,
        memory_len: u64,
    ) -> Flow {
        Flow {
            key: located.flow,
            cookie: located.cookie,
            tenant: located.tenant,
            slot,
            parameters,
            region,
            memory_len,
            following: Following::No,
            entry: None,
            is_ending: false,
            asking: Asking::default(),
            writer: Writer::default(),
            tags: vec![Tag::default(); usize::from(parameters.commands)],
            passed: Forwarded::new(Acknowledged::new(located.receive_next, queued)),
        }
    }

    fn shared(&self) -> Shared<'_> {
        self.slot.slot().pdus()
    }

    pub(super) fn report(&self, state: OffloadState) {
        let generation = self.slot.generation();
        self.slot
            .slot()
            .set_status(Direction::Receive, generation, state);
    }

    /// Notes the tags whose mappings the library has changed.
    #[inline]
    pub(super) fn take_changes(&self, changes: &mut Vec<(u16, Option<Mapping>)>) {
        self.shared()
            .take_changes(|tag, mapping| changes.push((tag, mapping)));
    }

    /// Takes over what a tag is mapped to now.
    pub(super) fn change(
        &mut self,
        number: u16,
        mapping: Option<Mapping>,
    ) -> Result<Change, OutOfBounds> {
        let Some(mapping) = mapping else {
            return Err(OutOfBounds);
        };
        let offset = u64::from(mapping.page) * PAGE as u64;
        if offset + u64::from(mapping.len) > self.memory_len {
            return Err(OutOfBounds);
        }
        let following = self.following;
        let tag = self.tags.get_mut(usize::from(number)).ok_or(OutOfBounds)?;
        let mut change = Change::default();
        if let Some((generation, context)) = tag.mapped {
            let is_known = mapping.len > 0 && generation == mapping.generation;
            if is_known {
                return Ok(change);
            }
            // Another context does not have its mappings.
            change.unmaps = Some(context).filter(|it| following == Following::By(*it));
        }
        if mapping.len == 0 {
            change.ends = Some(mapping.generation);
            if tag.mapped.is_none_or(|(it, _)| it != mapping.generation) {
                tag.placed = 0;
            }
            tag.mapped = None;
            return Ok(change);
        }
        *tag = Tag::default();
        if let Following::By(context) = following {
            tag.mapped = Some((mapping.generation, context));
            let slice = Slice {
                offset,
                len: mapping.len,
                region: self.region,
            };
            change.maps = Some((context, slice));
        }
        Ok(change)
    }

    /// Nothing more is written for a mapping.
    pub(super) fn end_mapping(&mut self, number: u16, generation: Generation) {
        if let Some(tag) = self.tags.get(usize::from(number)) {
            self.shared().end_mapping(number, generation, tag.placed);
        }
    }

    /// Linux has acknowledged the stream up to `position`.
    #[inline]
    pub(super) fn acknowledge(&mut self, position: SeqNum) {
        self.passed.acknowledge(position);
    }

    /// Up to where Linux has acknowledged the stream.
    pub(super) fn acknowledged(&self) -> SeqNum {
        self.passed.acknowledged()
    }

    /// Whether a context may be made now, for one that was to wait.
    pub(super) fn may_go_on(&self) -> bool {
        match self.following {
            Following::From(position) => self.acknowledged().at_or_after(position),
            Following::Paused => Writer::may_go_on(self.shared()),
            Following::No | Following::By(_) => false,
        }
    }

    /// The device should stop until the program has read on.
    pub(super) fn is_low(&self) -> bool {
        self.writer.is_low()
    }

    /// Tells of a frame that is about to go to Linux: which parts of it were placed, and whether its digests were checked. An error when it must
    /// not go.
    pub(super) fn admit(
        &mut self,
        (seq, len): (SeqNum, u32),
        parts: &[PlacedPart],
        checked: bool,
    ) -> Result<Admitted, Full> {
        for part in parts {
            if let Some(tag) = self.tags.get_mut(usize::from(part.tag)) {
                tag.placed = tag.placed.wrapping_add(part.slice.len);
            }
        }
        let shared = self.slot.slot().pdus();
        let mut admitted = Admitted::default();
        let Some(range) = self.passed.wanted((seq, len)) else {
            return Ok(admitted);
        };
        for again in self.passed.again(range) {
            self.writer.doubtful(shared, again)?;
            admitted.is_second = true;
        }
        self.passed.add(range);
        if admitted.is_second {
            return Ok(admitted);
        }
        if checked {
            admitted.is_unreported |= self.writer.checked(shared, (seq, len)).is_err();
        }
        for part in parts {
            let tag = self.tags.get(usize::from(part.tag));
            let Some((generation, _)) = tag.and_then(|tag| tag.mapped) else {
                continue;
            };
            let bytes = (seq + part.at, part.slice.len);
            admitted.is_unreported |= self.writer.placed(shared, bytes, generation).is_err();
        }
        Ok(admitted)
    }
}

impl Followed for Flow {
    fn parts(&mut self) -> (&mut Following, &mut Asking, Questions<'_>) {
        let questions = self.slot.slot().pdus().questions();
        (&mut self.following, &mut self.asking, questions)
    }
}
