//! What the NIC must know of NVMe/TCP's headers.

use wire::nvme::{self, Framing, Pdu, PduType};

use super::Parameters;
use super::framing::parts;
use crate::pdus::{self, Judged};
use crate::{Direction, Placement};

#[cfg(test)]
mod aside;
#[cfg(test)]
mod tests;

/// Bytes of the header that tell all: for a data PDU that is the whole of it, without its digest.
pub(super) const HEADER_LEN: usize = 24;

/// The NIC's part of NVMe/TCP.
pub type Engine = pdus::Engine<Rules>;

/// What headers are judged by.
#[derive(Clone, Debug)]
pub struct Rules {
    framing: Framing,
    commands: u16,
}

impl Engine {
    /// An engine for PDUs as `parameters` say.
    #[must_use]
    pub fn new(parameters: &Parameters, direction: Direction) -> Engine {
        let rules = Rules {
            framing: parameters.framing(),
            commands: parameters.commands,
        };
        Engine::of(rules, direction)
    }
}

impl Rules {
    /// The placement of a data PDU. `None` when it has none that could be. Without tags nothing is placed. The tags of PDUs that are sent are the peer's
    /// business: a Linux host puts a generation into the upper bits of its CIDs.
    fn place(
        &self,
        pdu: &Pdu,
        layout: &nvme::Layout,
        direction: Direction,
    ) -> Option<Option<Placement>> {
        if direction == Direction::Transmit || self.commands == 0 {
            return Some(None);
        }
        let (tag, at) = match pdu {
            Pdu::C2HData(data) => (data.cccid, data.data_offset),
            Pdu::H2CData(data) => (data.ttag, data.data_offset),
            _ => return Some(None),
        };
        let data = layout.data();
        (tag < self.commands).then_some(Some(Placement {
            from: data.start,
            to: data.end,
            tag,
            at,
        }))
    }
}

impl pdus::Rules for Rules {
    type Header = [u8; HEADER_LEN];

    fn may_begin(&self, bytes: &[u8]) -> bool {
        self.framing.check(bytes).is_ok()
    }

    fn judge(&self, header: &[u8], direction: Direction) -> Option<Judged> {
        let layout = self.framing.check(header).ok()??;
        let placement = match layout.pdu_type {
            PduType::CapsuleCmd => None,
            _ => {
                let pdu = Pdu::parse_checked(header, &layout).ok()?;
                self.place(&pdu, &layout, direction)?
            }
        };
        Some(Judged {
            layout: parts(&layout),
            header_digest: layout.header_digest,
            placement,
        })
    }

    fn has_digests(&self) -> bool {
        self.framing.header_digest || self.framing.data_digest
    }
}
