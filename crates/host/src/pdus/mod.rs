//! PDUs on sockets: messages whose data belongs into buffers, whatever the NIC does of the work.
//!
//! A protocol is what says how its PDUs look, a [`PduProtocol`]; all else is the same for NVMe/TCP and for others of its kind. A connection carries
//! PDUs from [`Stack::start_pdus`](crate::Stack::start_pdus) on, under the rules that hold before the two sides have agreed on others. Those, and what the NIC
//! is to do, come with [`Stack::pdus_negotiated`](crate::Stack::pdus_negotiated), between two PDUs of each direction.
//!
//! Data is never held here. What is sent stays where it is in registered memory, or is copied if it is short. What is received goes
//! to where the application's [`PduSink`] says, when the header of its PDU has come: by the NIC, if the application has mapped
//! that memory to the command's tag ([`Stack::map_buffer`](crate::Stack::map_buffer)) and the NIC could follow the stream; else by a copy. The application sees no
//! difference.

mod buffers;
mod contexts;
mod fallback;
mod intake;
mod strays;
mod stream;
mod target;
mod transmit;

use l5p::Layers;
use nic::ring::Slice;
use wire::SeqNum;

pub use crate::error::PduError;
pub use buffers::{Unmapped, Unmapping};
pub use l5p::pdus::PduProtocol;

pub(crate) use intake::{Intake, Stopped};
pub(crate) use stream::PduStream;
pub(crate) use transmit::Frame;

/// A place in what a socket sends: what was sent in place is needed until it is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendMark(pub(crate) SeqNum);

/// The rules for the PDUs of both directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Framings<P> {
    /// For those that are received.
    pub incoming: P,
    /// For those that are sent. How much of a PDU the peer accepts is for the maker of PDUs to heed.
    pub outgoing: P,
}

/// What both sides have agreed on.
#[derive(Clone, Debug)]
pub struct Agreed<P> {
    /// The rules from the next PDU of each direction on.
    pub framings: Framings<P>,
    /// What the NIC is to know to make data digests; `None` when software makes them, or there are none.
    pub transmit: Option<Layers>,
    /// What the NIC is to know to place data and to check digests; `None` when it is to do neither.
    pub receive: Option<Layers>,
    /// The NIC's word on data digests is to be taken.
    pub checks_digests: bool,
    /// Buffers are mapped to tags below this; 0 when the NIC is to place nothing.
    pub tags: u16,
}

/// What the NIC is to do for a connection's PDUs. What it does not, software does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PduOffload {
    /// Writes received data to where it belongs ([`Stack::map_buffer`](crate::Stack::map_buffer)).
    pub placement: bool,
    /// Checks data digests of what is received.
    pub receive_digest: bool,
    /// Makes data digests of what is sent.
    pub transmit_digest: bool,
}

impl PduOffload {
    /// Nothing.
    pub const NONE: PduOffload = PduOffload {
        placement: false,
        receive_digest: false,
        transmit_digest: false,
    };

    /// Everything.
    pub const ALL: PduOffload = PduOffload {
        placement: true,
        receive_digest: true,
        transmit_digest: true,
    };
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
    /// The PDU has no data, or they are not placed.
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
pub trait PduSink<P: PduProtocol> {
    /// A header has come, and it obeys the protocol. Answers where its data goes; a PDU without data has ended with this
    /// call.
    ///
    /// # Errors
    /// What makes the connection end: the peer is told of it if the protocol has a PDU for that.
    fn header(&mut self, pdu: &P::Pdu) -> Result<Destination<'_>, P::Error>;

    /// Some data of the PDU whose header came last has been taken in, and the PDU has not ended. One call says it of all
    /// that one call of [`Stack::receive_pdus`](crate::Stack::receive_pdus) took.
    fn part(&mut self) {}

    /// The data of the PDU whose header came last is all there; with [`Destination::Inline`] here it is.
    ///
    /// # Errors
    /// What makes the connection end: the peer is told of it if the protocol has a PDU for that.
    fn end(&mut self, digest: DataDigest, data: &[u8]) -> Result<(), P::Error>;
}
