//! What the PDUs of a protocol look like.

use std::error::Error;
use std::fmt::Debug;
use std::ops::Range;

use crate::ProtocolId;

/// Most bytes of a PDU before its data: the header, the header's digest, and padding.
pub const MAX_FRONT: usize = 256;

/// Most bytes of padding between the data of a PDU and its digest.
pub const MAX_PADDING: u32 = 3;

/// Bytes of a data digest: a CRC-32C, lowest byte first.
pub(super) const DIGEST_LEN: u32 = 4;

/// Where the parts of one PDU are, counted from its first byte.
///
/// ```text
/// | header | its digest | padding | data        | padding | digest |
/// 0               header_len   data_start        0..=MAX_PADDING   len()
/// ```
///
/// The data digest covers the data and the padding behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Bytes of the header, with its digest if it has one.
    pub header_len: u32,
    /// Where the data begins, or the PDU ends if it has none; at most [`MAX_FRONT`].
    pub data_start: u32,
    /// Bytes of data. A PDU without data ends with its header: it has neither padding nor a data digest.
    pub data_len: u32,
    /// Bytes of padding behind the data; at most [`MAX_PADDING`].
    pub padding: u32,
    /// Whether a data digest ends the PDU.
    pub data_digest: bool,
}

impl Layout {
    /// A PDU of nothing but a header with `header_len` bytes.
    #[inline]
    #[must_use]
    pub const fn header_only(header_len: u32) -> Layout {
        Layout {
            header_len,
            data_start: header_len,
            data_len: 0,
            padding: 0,
            data_digest: false,
        }
    }

    /// Where the data is; empty for a PDU without data.
    #[inline]
    #[must_use]
    pub const fn data(&self) -> Range<u32> {
        self.data_start..self.data_start + self.data_len
    }

    /// Bytes of the data digest.
    #[inline]
    #[must_use]
    pub const fn digest_len(&self) -> u32 {
        DIGEST_LEN * self.data_digest as u32
    }

    /// Bytes behind the data: padding and digest.
    #[inline]
    #[must_use]
    pub const fn behind_len(&self) -> u32 {
        self.padding + self.digest_len()
    }

    /// Bytes of the whole PDU.
    #[inline]
    #[must_use]
    #[allow(clippy::len_without_is_empty)]
    pub const fn len(&self) -> u32 {
        self.data_start + self.data_len + self.behind_len()
    }
}

/// The framing of a protocol whose messages carry data that belongs into buffers.
///
/// A value holds the rules for the PDUs of one direction of a connection, as far as the two sides have agreed on them: who sends, which
/// digests are in use, how long a PDU may be. What comes before there are PDUs (NBD's handshake) is read and written as plain bytes,
/// without this trait. While PDUs are exchanged to agree on rules (ICReq and ICResp, iSCSI's login),
/// [`ends_phase`](Self::ends_phase) names those after which other rules may hold.
///
/// A header is read in two steps, since its length may depend on its first bytes: [`begin`](Self::begin) judges the first
/// [`PRELUDE_LEN`](Self::PRELUDE_LEN) of them, and [`parse`](Self::parse) all of it once it has come. Both are pure: they may be called
/// again with the same bytes. So an error is the same one however the bytes come.
pub trait PduProtocol: Clone + Debug + Send + 'static {
    /// A header that was parsed and obeys the rules, of either direction.
    type Pdu: Copy + Debug + Send;

    /// What the first bytes of a header tell.
    type Prelude: Copy;

    /// How a PDU breaks the protocol.
    type Error: Error + Clone + PartialEq + Send + Sync + 'static;

    /// Its id in the list of protocols.
    const ID: ProtocolId;

    /// The protocol's name, for messages.
    const NAME: &'static str;

    /// Bytes that tell how long a header is: at least one, and no more than the shortest header has.
    const PRELUDE_LEN: usize;

    /// Judges the first [`PRELUDE_LEN`](Self::PRELUDE_LEN) bytes of a header.
    ///
    /// # Errors
    /// The first field that breaks the rules.
    fn begin(&self, prelude: &[u8]) -> Result<Self::Prelude, Self::Error>;

    /// Bytes of the whole header, with its digest: from [`PRELUDE_LEN`](Self::PRELUDE_LEN) to [`MAX_FRONT`].
    fn header_len(&self, prelude: &Self::Prelude) -> usize;

    /// Parses a whole header of [`header_len`](Self::header_len) bytes, and checks its digest.
    ///
    /// # Errors
    /// A wrong digest, or the first field that breaks the rules.
    fn parse(
        &self,
        prelude: &Self::Prelude,
        header: &[u8],
    ) -> Result<(Self::Pdu, Layout), Self::Error>;

    /// Whether nothing may be read behind this PDU before the two sides have agreed on what holds from there on.
    fn ends_phase(&self, pdu: &Self::Pdu) -> bool {
        let _ = pdu;
        false
    }

    /// Where the parts of this PDU are.
    ///
    /// # Panics
    /// When its length exceeds 32 bits.
    fn layout_of(&self, pdu: &Self::Pdu) -> Layout;

    /// Writes the header of this PDU to the front of `front`, with its digest; gives its [`layout`](Self::layout_of). What lies behind the
    /// header is left as it is.
    ///
    /// # Panics
    /// When the PDU's length exceeds 32 bits.
    fn emit(&self, pdu: &Self::Pdu, front: &mut [u8; MAX_FRONT]) -> Layout;

    /// What is wrong with a PDU that has more data than there is room for.
    fn no_room(pdu: &Self::Pdu) -> Self::Error;

    /// What the sender of these PDUs tells its peer before it ends the connection because of `error`. `header` are the bytes of the refused
    /// header as far as they came; as many of them as the answer's layout has data are sent as its data. `None` when the protocol
    /// tells nothing, or not in answer to this header.
    fn refusal(&self, error: &Self::Error, header: &[u8]) -> Option<Self::Pdu> {
        let _ = (error, header);
        None
    }

    /// What the peer says of the error for which it ends the connection with this PDU. `None` for all that do not end it.
    fn termination(pdu: &Self::Pdu) -> Option<Self::Error> {
        let _ = pdu;
        None
    }
}
