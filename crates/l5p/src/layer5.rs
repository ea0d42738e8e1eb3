//! What a NIC must know of a layer-5 protocol.

use std::fmt::Debug;
use std::ops::Range;

use shared::{Input, Output};
use wire::SeqNum;

/// What the bytes at a presumed message header are (Autonomous NIC offloads §3.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// The header of a message of `len` bytes in all, header and trailer included.
    Message {
        /// Length of the whole message in bytes; at least that of its header.
        len: u32,
    },
    /// Nothing contradicts a header so far, but more bytes are needed to tell.
    TooShort,
    /// The magic pattern is not here.
    NotAHeader,
}

/// Whether a message's integrity check held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Integrity {
    /// The check value matched, or the direction is one that makes it.
    Good,
    /// The check value did not match.
    Bad,
}

/// A range of a message's bytes that belong into a buffer that the host has named beforehand (`l5o_add_rr_state`, Autonomous NIC offloads,
/// Listing 1): bytes `from..to` of the message are bytes `at..` of the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    /// Offset of the first of them in the message, header included.
    pub from: u32,
    /// Offset of the first byte behind them; at least `from`.
    pub to: u32,
    /// The host's name for the buffer.
    pub tag: u16,
    /// Where in the buffer the first of them belongs.
    pub at: u32,
}

/// The message that a TCP sequence number belongs to: what `l5o_get_tx_msgstate` gives (Autonomous NIC offloads
/// §4.1, Listing 2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MsgState {
    /// `tcpsn` of the message's first byte.
    pub start: SeqNum,
    /// Length of the whole message in bytes.
    pub len: u32,
    /// Its number; for TLS the record's sequence number under its epoch's keys.
    pub index: u64,
    /// Which keys: counts their changes before it. 0 for a protocol without.
    pub epoch: u16,
}

/// Most notes on one packet. More are dropped, all of them.
pub const MAX_NOTES: usize = 16;

/// What an engine has to say of bytes that it has transformed, beside whether their check held: a pattern's match, for example.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Note {
    /// Where: bytes before it of those that the engine was given since there was no note to take.
    pub at: u32,
    /// What kind of note, in the protocol's own numbering.
    pub code: u32,
    /// What it says.
    pub value: u64,
}

/// Most bytes that an engine makes of one packet for [mapped buffers](Results).
pub const MAX_RESULTS: usize = 4 << 20;
/// Bytes by which the room for them grows.
const RESULTS_PIECE: usize = 64 << 10;

/// What an engine makes that has another length than what it is made of, for buffers that the host has mapped (Autonomous NIC offloads §3.1,
/// §7). They follow one another and are used around and around: each has the same length, and the first one has tag 0.
#[derive(Debug, Default)]
pub struct Results {
    /// Bytes made before these.
    before: u64,
    bytes: Vec<u8>,
    /// Bytes made.
    len: usize,
    ring: ResultRing,
}

/// The buffers for [`Results`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResultRing {
    /// Bytes of each buffer; not 0.
    pub buffer_len: u32,
    /// How many; at least 1.
    pub buffers: u16,
}

impl ResultRing {
    /// Bytes of all of them.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        u64::from(self.buffer_len) * u64::from(self.buffers)
    }

    /// Where byte `at` of all that is made belongs: the buffer's tag, the offset in it, and how many bytes there are from there to its end.
    #[must_use]
    pub fn place(&self, at: u64) -> (u16, u32, u32) {
        let len = u64::from(self.buffer_len);
        let offset = (at % len) as u32;
        let tag = (at / len % u64::from(self.buffers)) as u16;
        (tag, offset, self.buffer_len - offset)
    }
}

impl Results {
    /// What follows comes behind `before` bytes that were made for these buffers: behind those that are here, if there are any.
    pub fn begin(&mut self, before: u64, ring: ResultRing) {
        if self.before + self.len as u64 != before {
            self.clear();
        }
        if self.is_empty() {
            self.before = before;
        }
        self.ring = ring;
    }

    /// Gives all of them up.
    pub fn clear(&mut self) {
        self.len = 0;
    }

    /// Room for more; empty when these are [`MAX_RESULTS`] already.
    pub fn room(&mut self) -> &mut [u8] {
        if self.len == self.bytes.len() {
            let len = MAX_RESULTS.min(self.bytes.len() + RESULTS_PIECE);
            self.bytes.resize(len, 0);
        }
        &mut self.bytes[self.len..]
    }

    /// So many bytes were put into the front of the [room](Self::room).
    pub fn add(&mut self, bytes: usize) {
        self.len += bytes;
        assert!(self.len <= self.bytes.len(), "what was put there had room");
    }

    /// Whether there are no notes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The results, by the buffer that they belong into.
    pub fn pieces(&self) -> impl Iterator<Item = (Placement, &[u8])> {
        let mut done = 0;
        std::iter::from_fn(move || {
            let rest = &self.bytes[done..self.len];
            if rest.is_empty() {
                return None;
            }
            let (tag, at, room) = self.ring.place(self.before + done as u64);
            let piece = &rest[..rest.len().min(room as usize)];
            done += piece.len();
            let to = piece.len() as u32;
            Some((
                Placement {
                    from: 0,
                    to,
                    tag,
                    at,
                },
                piece,
            ))
        })
    }
}

/// Bytes transformed at a time when the output is not wanted.
const SCRATCH: usize = 2048;

/// A digest over the part of a message that has been transformed so far.
///
/// It is kept and compared inside the device and must never leave it: for an AEAD it is a second
/// tag under the same nonce, which would give the authentication key away.
pub type Digest = [u8; 16];

/// A protocol whose messages can be processed in any byte ranges, in order, with constant state
/// (Autonomous NIC offloads, Table 3).
///
/// The calls for one message are `start`, then `transform` for every byte after the header in
/// order and in pieces of any size, then `finish`. [`Walker`](crate::Walker) makes them.
pub trait Layer5 {
    /// The bytes that a header is judged by: an array of at least one. Where headers have several lengths, the longest.
    type Header: AsRef<[u8]> + AsMut<[u8]> + Copy + Debug + Default + Eq + Send;

    /// Bytes needed to judge a header; not to be defined otherwise.
    const HEADER_LEN: usize = size_of::<Self::Header>();

    /// The length of every message, where all have the same and it is known without the header. Then the next header's place is
    /// known even when headers are missing, and nothing needs to be searched for. The first [`MIN_HEADER_LEN`](Self::MIN_HEADER_LEN) bytes
    /// of any message are a header, and it is one byte.
    const FIXED_LEN: Option<u32> = None;

    /// Length of the shortest header, from which the length of any is known.
    const MIN_HEADER_LEN: usize = Self::HEADER_LEN;

    /// The check of a message holds under no other number than its own: one that holds tells which message it is.
    fn check_tells_number(&self) -> bool {
        false
    }

    /// Bytes of the header that begins with these [`MIN_HEADER_LEN`](Self::MIN_HEADER_LEN) bytes: at most
    /// [`HEADER_LEN`](Self::HEADER_LEN). They may be those of no header.
    fn header_len(&self, _beginning: &[u8]) -> usize {
        Self::HEADER_LEN
    }

    /// Judges the bytes at a presumed header, while some of it is missing or a header is searched for. Looks at no more than the header, and
    /// refuses as early as the first byte that contradicts.
    fn judge(&self, bytes: &[u8]) -> Judgement;

    /// Whether the first bytes of a header, where a message begins for certain, may be of one. As [`judge`](Self::judge) says, unless headers that are
    /// not searched for may come.
    fn may_begin(&self, bytes: &[u8]) -> bool {
        self.judge(bytes) == Judgement::TooShort
    }

    /// Begins message number `index`, whose header are these bytes, and gives its length. `None`, with nothing
    /// begun, when these are not the header of a message: as [`judge`](Self::judge) says, unless headers that are not searched for may come. A message that was begun and not finished is forgotten.
    fn start(&mut self, index: u64, header: &[u8]) -> Option<u32>;

    /// Transforms the bytes from `offset` on, counted from the message's first byte, header
    /// included. `input` and `output` have the same length. A transmitting engine puts the
    /// integrity check value in place of the dummy; a receiving one leaves it as it came. Each byte of
    /// shared memory is read or written once.
    fn transform(&mut self, offset: u32, input: Input<'_>, output: Output<'_>);

    /// As [`transform`](Self::transform), for bytes whose transformed form is not wanted.
    fn absorb(&mut self, offset: u32, mut input: Input<'_>) {
        let mut discarded = [0; SCRATCH];
        let mut at = offset;
        while !input.is_empty() {
            let (part, later) = input.split_at(input.len().min(SCRATCH));
            self.transform(at, part, (&mut discarded[..part.len()]).into());
            at += part.len() as u32;
            input = later;
        }
    }

    /// Makes bytes of the middle of a message again, as they were transformed in their turn: `input` begins at byte `offset` of message number
    /// `index`, which has `len` bytes. Needs nothing of what comes before them and leaves the message in progress alone. False, with
    /// nothing done, when this engine can't, or for bytes of the integrity check value.
    fn transform_at(
        &mut self,
        _index: u64,
        _len: u32,
        _offset: u32,
        _input: Input<'_>,
        _output: Output<'_>,
    ) -> bool {
        false
    }

    /// Whether [`transform_at`](Self::transform_at) can do that.
    fn is_seekable(&self) -> bool {
        false
    }

    /// Where in a message of `len` bytes the stream of a protocol inside this one lies. `None` when its messages carry none. All
    /// messages have the same number of bytes around their content.
    fn content(&self, _len: u32) -> Option<Range<u32>> {
        None
    }

    /// Messages up to this length are often of another kind than those that carry the inner stream. The inner protocol places nothing
    /// of them before [`carries`](Self::carries) has said what they are.
    const SHORT_MESSAGE: u32 = 0;

    /// Whether a message carries the inner stream, judged by its first transformed byte behind the [content](Self::content).
    fn carries(&self, _behind: u8) -> bool {
        true
    }

    /// Whether a message is surely of another kind, without bytes of the inner stream, judged by the same byte.
    fn carries_nothing(&self, _behind: u8) -> bool {
        false
    }

    /// Whether what [`finish`](Self::finish) checks says anything: false for messages without check values.
    fn has_checks(&self) -> bool {
        true
    }

    /// Where data of the message in progress belong that need not stay in the stream: asked of a receiving engine right
    /// after [`start`](Self::start). A message has one range of them at most.
    fn placement(&self) -> Option<Placement> {
        None
    }

    /// The next note on the bytes given since this has returned `None` last. To be called after each packet until it does. Notes on one
    /// packet are in the order of its bytes, and no more than [`MAX_NOTES`].
    fn take_note(&mut self) -> Option<Note> {
        None
    }

    /// Whether it makes what does not take the place of what it is made of ([`exchange_results`](Self::exchange_results)).
    const HAS_RESULTS: bool = false;

    /// Exchanges where the engine puts what it makes: to be called before the bytes of a packet are given, and behind them. False when it has
    /// made nothing of them that counts.
    fn exchange_results(&mut self, _results: &mut Results) -> bool {
        false
    }

    /// What it made of the bytes given since there was no note to take can't be written into buffers, or not all of it.
    fn lose_results(&mut self) {}

    /// Whether two notes can be left out together, of which `next` is the first on bytes that come right behind those that `last` is the
    /// last on.
    fn may_join(_last: &Note, _next: &Note) -> bool {
        false
    }

    /// Ends the message, all of whose bytes have been given.
    fn finish(&mut self) -> Integrity;

    /// Where the integrity check value lies in a message of `len` bytes; empty if it has none.
    fn icv(&self, len: u32) -> Range<u32>;

    /// A digest over the bytes of the current message before `offset`, all of which have been
    /// transformed. It does not disturb the message in progress.
    fn digest(&mut self, offset: u32) -> Digest;
}
