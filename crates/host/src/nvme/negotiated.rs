//! What holds for the PDUs of a connection, before and after ICReq and ICResp.

use l5p::Layers;
use l5p::nvme::Parameters;
use wire::nvme::{Digests, Framing, Phase, Role};

use crate::pdus::{Agreed, Framings, PduOffload};

/// What ICReq and ICResp have agreed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Negotiated {
    /// Digests, of both directions.
    pub digests: Digests,
    /// HPDA: how data for the host is aligned.
    pub hpda: u8,
    /// CPDA: how data for the controller is aligned.
    pub cpda: u8,
    /// The longest PDU in bytes that this side accepts.
    pub max_pdu: u32,
    /// Buffers are mapped to tags below this: CIDs on a host's side, TTAGs on a controller's.
    pub commands: u16,
    /// What the NIC is to do.
    pub offload: PduOffload,
}

/// The rules for ICReq and ICResp, as the side that is `role` sees them.
pub fn opening(role: Role) -> Framings<Framing> {
    Framings {
        incoming: Framing::initializing(role.peer()),
        outgoing: Framing::initializing(role),
    }
}

impl Negotiated {
    /// The rules from the next PDUs on, as the side that is `role` sees them.
    pub fn seen_by(&self, role: Role) -> Agreed<Framing> {
        let incoming = self.framing(role.peer());
        let outgoing = Framing {
            max_pdu: u32::MAX,
            ..self.framing(role)
        };
        let makes_digests = self.digests.data && self.offload.transmit_digest;
        let checks_digests = self.digests.data && self.offload.receive_digest;
        let helps = self.offload.placement || checks_digests;
        let tags = match self.offload.placement {
            true => self.commands,
            false => 0,
        };
        let layers = |framing: &Framing, tags| Layers::of(&parameters(framing, tags));
        Agreed {
            transmit: makes_digests.then(|| layers(&outgoing, self.commands)),
            receive: helps.then(|| layers(&incoming, tags)),
            checks_digests: self.offload.receive_digest,
            tags,
            framings: Framings { incoming, outgoing },
        }
    }

    fn framing(&self, sender: Role) -> Framing {
        Framing {
            sender,
            phase: Phase::Established,
            header_digest: self.digests.header,
            data_digest: self.digests.data,
            alignment: match sender {
                Role::Host => self.cpda,
                Role::Controller => self.hpda,
            },
            max_pdu: self.max_pdu,
        }
    }
}

/// What a context is told of one direction.
fn parameters(framing: &Framing, tags: u16) -> Parameters {
    Parameters {
        sender: framing.sender,
        header_digest: framing.header_digest,
        data_digest: framing.data_digest,
        alignment: framing.alignment,
        max_pdu: framing.max_pdu,
        commands: tags,
    }
}
