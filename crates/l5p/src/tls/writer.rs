//! The sending side of a connection: frames records, remembers them, encrypts what the NIC does
//! not.

use std::collections::VecDeque;

use shared::Input;
use wire::SeqNum;
use wire::tls::ContentType;

use super::framing::Framing;
use super::{CryptoInfo, Direction, Engine, HEADER_LEN, MAX_PLAINTEXT};
use crate::unacknowledged::Unacknowledged;
use crate::{Layer5, MsgState};
pub use layout::{Layout, MAX_HEADER, MAX_TRAILER};

mod layout;
#[cfg(test)]
mod tests;

/// Largest block that [`Writer::set_padding`] pads to.
pub const MAX_PADDING_BLOCK: u8 = 16;

/// Records under one AES-GCM key after which a key update is due; RFC 8446 §5.5 allows 2^24.5.
const KEY_UPDATE_AFTER: u64 = 1 << 24;

/// Frames the records of one socket and keeps those that TCP has not acknowledged wholly.
///
/// A record that the NIC shall encrypt is made in three steps: [`record_layout`] gives the bytes
/// around its content; the caller queues header, content and trailer with TCP; [`commit`] registers
/// where it begins. A record that software encrypts is made by [`seal_into`] alone and is not kept,
/// since TCP retransmits its ciphertext.
///
/// [`record_layout`]: Self::record_layout
/// [`commit`]: Self::commit
/// [`seal_into`]: Self::seal_into
#[derive(Debug)]
pub struct Writer {
    framing: Framing,
    /// Sequence number of the next record.
    sequence: u64,
    max_plaintext: usize,
    padding_block: u8,
    /// The explicit nonce of record 0, when they are counted.
    first_nonce: Option<u64>,
    /// Those that were committed.
    records: Unacknowledged,
    /// Those of `records` and the current one, which is last.
    epochs: VecDeque<Epoch>,
}

#[derive(Debug)]
struct Epoch {
    id: u16,
    info: CryptoInfo,
    /// Made when software encrypts for the first time.
    engine: Option<Engine>,
}

impl Writer {
    /// A writer whose first record is number `info.sequence`.
    pub fn new(info: CryptoInfo) -> Writer {
        let mut epochs = VecDeque::with_capacity(2);
        let (framing, sequence) = (Framing::of(&info), info.sequence);
        epochs.push_back(Epoch {
            id: 0,
            info,
            engine: None,
        });
        Writer {
            framing,
            sequence,
            max_plaintext: MAX_PLAINTEXT,
            padding_block: 1,
            first_nonce: None,
            records: Unacknowledged::default(),
            epochs,
        }
    }

    /// Limits the content of a record to `bytes`, as the peer asked (RFC 8449 §4, where TLS 1.3
    /// counts the inner content type too) or the application wants.
    ///
    /// # Panics
    /// When `bytes` is 0.
    pub fn set_max_plaintext(&mut self, bytes: usize) {
        assert!(bytes > 0, "a record must have room for content");
        self.max_plaintext = bytes.min(MAX_PLAINTEXT);
    }

    /// Most content bytes that one record takes.
    pub fn max_plaintext(&self) -> usize {
        self.max_plaintext
    }

    /// Pads TLS 1.3 records so that content, type and padding are a multiple of `block` bytes
    /// (RFC 8446 §5.4); 1 means no padding. TLS 1.2 has none.
    ///
    /// # Panics
    /// When `block` is 0 or above [`MAX_PADDING_BLOCK`].
    pub fn set_padding(&mut self, block: u8) {
        assert!((1..=MAX_PADDING_BLOCK).contains(&block));
        self.padding_block = block;
    }

    /// Counts the explicit nonces of AES-GCM in TLS 1.2 up from `first`, that of record 0, as Linux does for programs that give it keys with
    /// the nonce that is next: those before it may have been used. Goes on over [`rekey`](Self::rekey), which TLS 1.2 has not.
    pub fn count_nonces_from(&mut self, first: u64) {
        self.first_nonce = Some(first);
    }

    /// How many records can be made yet under the present keys: a number is not used twice, nor the last one that there is (RFC 8446
    /// §5.3, RFC 5246 §6.1).
    pub fn records_left(&self) -> u64 {
        u64::MAX - self.sequence
    }

    /// Uses up the numbers of `count` records; gives the first one's.
    fn take_numbers(&mut self, count: u64) -> u64 {
        assert!(count <= self.records_left(), "record numbers are used up");
        let first = self.sequence;
        self.sequence += count;
        first
    }

    /// Registers the record laid out last: it begins at `start`, directly after the one committed
    /// before it or further on. Returns its state.
    ///
    /// # Panics
    /// When no number is [left](Self::records_left) for it.
    pub fn commit(&mut self, start: SeqNum, plaintext_len: usize) -> MsgState {
        self.commit_run(start, plaintext_len, 1)
    }

    /// Registers `count` records, at least one, of `plaintext_len` bytes of content each, one directly behind the other. Returns the
    /// first one's state.
    ///
    /// # Panics
    /// When fewer numbers are [left](Self::records_left).
    pub fn commit_run(&mut self, start: SeqNum, plaintext_len: usize, count: u32) -> MsgState {
        let first = MsgState {
            start,
            len: self.record_len(plaintext_len) as u32,
            index: self.take_numbers(count.into()),
            epoch: self.current().id,
        };
        self.records.push(first, count);
        first
    }

    /// Encrypts one record with the bytes of `input` as its content, in one pass, to the front of
    /// `output`, and returns its length.
    ///
    /// # Panics
    /// When the content exceeds [`max_plaintext`](Self::max_plaintext), `output` is shorter than
    /// [`record_len`](Self::record_len), or no number is [left](Self::records_left).
    pub fn seal_into<'i>(
        &mut self,
        content_type: ContentType,
        input: &[impl Copy + Into<Input<'i>>],
        output: &mut [u8],
    ) -> usize {
        let pieces = input.iter().map(|piece| (*piece).into());
        let plaintext_len = pieces.clone().map(Input::len).sum();
        let layout = self.record_layout(content_type, plaintext_len);
        let index = self.take_numbers(1);
        let engine = self.epochs.back_mut().expect(HAS_EPOCH).engine();
        let mut at = layout.header().len();
        output[..at].copy_from_slice(layout.header());
        let started = engine.start(index, &layout.header()[..HEADER_LEN]);
        assert!(started.is_some(), "what we lay out is a record");
        let (nonce, passed) = (&layout.header()[HEADER_LEN..], &mut [0; MAX_HEADER]);
        let passed = &mut passed[..nonce.len()];
        engine.transform(HEADER_LEN as u32, nonce.into(), passed.into());
        let mut seal = |piece: Input<'_>| {
            let output = &mut output[at..at + piece.len()];
            engine.transform(at as u32, piece, output.into());
            at += piece.len();
        };
        pieces.for_each(&mut seal);
        seal(layout.trailer().into());
        engine.finish();
        at
    }

    /// The record that the byte at `tcpsn` belongs to; `None` when it is wholly acknowledged, was
    /// never committed, or lies before the offload began.
    pub fn message_state(&self, tcpsn: SeqNum) -> Option<MsgState> {
        self.records.message(tcpsn)
    }

    /// Forgets the records of which TCP has acknowledged the last byte, and keys that no record needs.
    pub fn acknowledged(&mut self, una: SeqNum) {
        self.records.acknowledged(una);
        if self.epochs.len() > 1 {
            let oldest = self
                .records
                .first()
                .map_or(self.current().id, |record| record.epoch);
            while self.epochs[0].id != oldest {
                self.epochs.pop_front();
            }
        }
    }

    /// Up to where payload memory may be released when TCP has acknowledged all before `una`: the
    /// start of the record that `una` is inside of, else `una` itself.
    pub fn release_point(&self, una: SeqNum) -> SeqNum {
        self.records.release_point(una)
    }

    /// Whether no record is registered.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Encrypts in software what was framed for the NIC: the bytes of `record`, or its first so
    /// many, that `pieces` hold in order, to the front of `output`. Returns how many those are.
    /// The dummy integrity check value is replaced.
    ///
    /// It uses the record's own counter again. So the pieces must hold what they held when the
    /// record was committed.
    ///
    /// # Panics
    /// When `record` is none that [`message_state`](Self::message_state) gives, the pieces are
    /// longer than it or shorter than its header, or `output` is shorter than the pieces.
    pub fn encrypt_framed(
        &mut self,
        record: &MsgState,
        pieces: &[&[u8]],
        output: &mut [u8],
    ) -> usize {
        let epoch = self
            .epochs
            .iter_mut()
            .find(|epoch| epoch.id == record.epoch)
            .expect("an epoch is kept as long as its records");
        let engine = epoch.engine();
        let mut header = [0; HEADER_LEN];
        let mut at = 0;
        for piece in pieces {
            let end = at + piece.len();
            assert!(end <= record.len as usize);
            let in_header = piece.len().min(HEADER_LEN.saturating_sub(at));
            let (head, body) = piece.split_at(in_header);
            if !head.is_empty() {
                header[at..at + in_header].copy_from_slice(head);
                output[at..at + in_header].copy_from_slice(head);
                if at + in_header == HEADER_LEN {
                    engine.start(record.index, &header);
                }
            }
            let output = &mut output[at + in_header..end];
            engine.transform((at + in_header) as u32, body.into(), output.into());
            at = end;
        }
        assert!(
            at >= HEADER_LEN,
            "a record's header is needed to encrypt it"
        );
        at
    }

    /// Goes on under new keys, from record `info.sequence` on. Records committed before stay
    /// retransmittable under theirs. Returns the new epoch.
    ///
    /// # Panics
    /// When version or algorithm differ from the first epoch's.
    pub fn rekey(&mut self, info: CryptoInfo) -> u16 {
        assert_eq!(Framing::of(&info), self.framing, "a key update keeps them");
        let id = self.current().id.wrapping_add(1);
        self.sequence = info.sequence;
        let keep_last = self.records.last().map(|record| record.epoch);
        if keep_last != Some(self.current().id) {
            self.epochs.pop_back();
        }
        self.epochs.push_back(Epoch {
            id,
            info,
            engine: None,
        });
        id
    }

    /// The current epoch.
    pub fn epoch(&self) -> u16 {
        self.current().id
    }

    /// Sequence number of the next record.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Keys of the current epoch, with the sequence number of the next record: what a NIC context
    /// that begins there needs.
    pub fn crypto_info(&self) -> CryptoInfo {
        let mut info = self.current().info.clone();
        info.sequence = self.sequence;
        info
    }

    /// Keys of the epoch that `record` belongs to, with its sequence number: what a NIC context
    /// that begins with it needs. `None` when that epoch is gone.
    pub fn crypto_info_of(&self, record: &MsgState) -> Option<CryptoInfo> {
        let epoch = self.epochs.iter().find(|epoch| epoch.id == record.epoch)?;
        let mut info = epoch.info.clone();
        info.sequence = record.index;
        Some(info)
    }

    /// Whether so many records went under the current key that it should be updated, for AES-GCM
    /// before 2^24.5 records (RFC 8446 §5.5). A TLS 1.2 connection should be closed instead.
    pub fn key_update_due(&self) -> bool {
        self.sequence >= KEY_UPDATE_AFTER
            && self.framing.algorithm != super::Algorithm::ChaCha20Poly1305
    }

    fn current(&self) -> &Epoch {
        self.epochs.back().expect(HAS_EPOCH)
    }
}

impl Epoch {
    fn engine(&mut self) -> &mut Engine {
        self.engine
            .get_or_insert_with(|| Engine::new(&self.info, Direction::Transmit))
    }
}

const HAS_EPOCH: &str = "a writer always has a current epoch";
