//! What the NICs do in a run.

use host::Offload;
use host::nvme::PduOffload;

use crate::Lending;

/// What the NICs do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Help {
    /// The initiator's, of NVMe/TCP.
    pub initiator: PduOffload,
    /// The controller's.
    pub controller: PduOffload,
    /// The initiator's, of TLS.
    pub initiator_tls: Offload,
    /// The controller's.
    pub controller_tls: Offload,
    /// By node, the initiator's first: what it hands off.
    pub lending: [Option<Lending>; 2],
}

impl Help {
    /// Nothing.
    pub const NONE: Self = Self {
        initiator: PduOffload::NONE,
        controller: PduOffload::NONE,
        initiator_tls: Offload::None,
        controller_tls: Offload::None,
        lending: [None; 2],
    };

    /// All that they can of TLS and NVMe/TCP.
    pub const ALL: Self = Self {
        initiator: PduOffload::ALL,
        controller: PduOffload::ALL,
        initiator_tls: Offload::Both,
        controller_tls: Offload::Both,
        lending: [None; 2],
    };
}
