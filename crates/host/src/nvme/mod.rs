//! NVMe/TCP PDUs on sockets (NVMe/TCP 1.0), whatever the NIC does of the work.
//!
//! A connection carries PDUs from [`Stack::start_pdus`](crate::Stack::start_pdus) on. Its first two, ICReq and ICResp, are exchanged by the
//! application like all others; with what they agree on it calls [`Stack::pdus_negotiated`](crate::Stack::pdus_negotiated), and from the next PDU on digests
//! are made and checked and the NIC helps, as far as it can.
//!
//! Data is never held here. What is sent stays where it is in registered memory, or is copied if it is short. What is received goes
//! to where the application's [`PduSink`] says, when the header of its PDU has come: by the NIC, if the application has mapped
//! that memory to the command's tag ([`Stack::map_buffer`](crate::Stack::map_buffer)) and the NIC could follow the stream; else by a copy. The application sees no
//! difference.

mod buffers;
mod contexts;
mod fallback;
pub mod initiator;
mod receive;
mod sent;
pub mod store;
mod strays;
mod stream;
pub mod target;
mod transmit;

use nic::ring::Slice;

pub use buffers::{Unmapped, Unmapping};
pub use sent::SendMark;
pub use wire::nvme::{Digests, FatalError, FatalErrorStatus, Pdu, Role};

pub(crate) use stream::PduStream;

/// What the NIC is to do for a connection's PDUs. What it does not, software does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct NvmeOffload {
    /// Writes received data to where it belongs ([`Stack::map_buffer`](crate::Stack::map_buffer)).
    pub placement: bool,
    /// Checks data digests of what is received.
    pub receive_digest: bool,
    /// Makes data digests of what is sent.
    pub transmit_digest: bool,
}

impl NvmeOffload {
    /// Nothing.
    pub const NONE: NvmeOffload = NvmeOffload {
        placement: false,
        receive_digest: false,
        transmit_digest: false,
    };

    /// Everything.
    pub const ALL: NvmeOffload = NvmeOffload {
        placement: true,
        receive_digest: true,
        transmit_digest: true,
    };
}

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
    pub offload: NvmeOffload,
}

/// The data of a PDU to be sent.
#[derive(Clone, Copy, Debug)]
pub enum PduData<'a> {
    /// It has none.
    None,
    /// Registered memory, sent in place: it must not change until the peer has acknowledged it.
    Slices(&'a [Slice]),
    /// Bytes that are copied.
    Bytes(&'a [u8]),
}

impl PduData<'_> {
    /// Bytes of data. `None` when they are too many for one PDU.
    pub(crate) fn len(&self) -> Option<u32> {
        match self {
            PduData::None => Some(0),
            PduData::Slices(slices) => slices
                .iter()
                .try_fold(0u32, |len, slice| len.checked_add(slice.len)),
            PduData::Bytes(bytes) => bytes.len().try_into().ok(),
        }
    }
}

/// Where the data of a received PDU goes.
#[derive(Clone, Copy, Debug)]
pub enum Destination<'a> {
    /// There is none.
    Nothing,
    /// Registered memory, of at least the data's length. It stays registered until the PDU has ended.
    Slices(&'a [Slice]),
    /// To [`PduSink::end`]: for data that is short, as that of Connect or of a TermReq.
    Inline,
    /// Nowhere.
    Discard,
}

/// What a PDU's end says of its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataDigest {
    /// The data is what was sent, or was sent without a digest.
    Good,
    /// The digest is wrong: the data must not be used. Later PDUs are sound.
    Bad,
}

/// Who takes the PDUs of a socket.
pub trait PduSink {
    /// A header has come, and it obeys the protocol. Answers where its data goes; a PDU without data has ended with this
    /// call.
    ///
    /// # Errors
    /// What makes the connection end: the peer is told by a TermReq.
    fn header(&mut self, pdu: &Pdu) -> Result<Destination<'_>, FatalError>;

    /// The data of the PDU whose header came last is all there; with [`Destination::Inline`] here it is.
    ///
    /// # Errors
    /// What makes the connection end: the peer is told by a TermReq.
    fn end(&mut self, digest: DataDigest, data: &[u8]) -> Result<(), FatalError>;
}
