//! What the NIC must know of iSCSI's headers.

use wire::iscsi::{BHS_LEN, Framing, Pdu};

use super::framing::parts;
use super::{Parameters, TaskTag};
use crate::pdus::{self, Judged, Layout};
use crate::{Direction, Placement};

/// The NIC's part of iSCSI.
pub type Engine = pdus::Engine<Rules>;

/// What headers are judged by.
#[derive(Clone, Debug)]
pub struct Rules {
    framing: Framing,
    tags: u16,
}

/// A basic header segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header([u8; BHS_LEN]);

impl Default for Header {
    fn default() -> Header {
        Header([0; BHS_LEN])
    }
}

impl AsRef<[u8]> for Header {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl AsMut<[u8]> for Header {
    fn as_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

impl Engine {
    /// An engine for PDUs as `parameters` say.
    #[must_use]
    pub fn new(parameters: &Parameters, direction: Direction) -> Engine {
        let rules = Rules {
            framing: parameters.framing(),
            tags: parameters.tags,
        };
        Engine::of(rules, direction)
    }
}

impl Rules {
    /// The placement of what a header is before. `None` when it has none that could be. What an initiator sends is not placed: there is
    /// no target here.
    fn place(&self, pdu: &Pdu, layout: &Layout, direction: Direction) -> Option<Option<Placement>> {
        let Pdu::DataIn(data_in) = pdu else {
            return Some(None);
        };
        if direction == Direction::Transmit || self.tags == 0 || layout.data_len == 0 {
            return Some(None);
        }
        let tag = TaskTag::from_bits(data_in.task_tag).tag;
        let data = layout.data();
        (tag < self.tags).then_some(Some(Placement {
            from: data.start,
            to: data.end,
            tag,
            at: data_in.offset,
        }))
    }
}

impl pdus::Rules for Rules {
    type Header = Header;

    fn may_begin(&self, bytes: &[u8]) -> bool {
        self.framing.check(bytes).is_ok()
    }

    fn judge(&self, header: &[u8], direction: Direction) -> Option<Judged> {
        let lengths = self.framing.check(header).ok()??;
        let pdu = Pdu::parse(header, &lengths).ok()?;
        let layout = parts(&self.framing, &lengths);
        Some(Judged {
            layout,
            header_digest: self.framing.header_digest,
            placement: self.place(&pdu, &layout, direction)?,
        })
    }

    fn has_digests(&self) -> bool {
        self.framing.header_digest || self.framing.data_digest
    }
}
