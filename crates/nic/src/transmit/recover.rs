//! Bringing a transmit context to where a retransmission begins (seed 000 §4.2), and proving that what is
//! retransmitted is what was sent.

use l5p::{Layer5, Walker};

use crate::counters::Counters;
use crate::ring::{DeviceRegions, ErrorCode, Gather, Recover, Verify};

use super::context::{Frontier, RecoveryId, Replay, State, TransmitContext, digest};
use super::scratch::{SCRATCH_BYTES, Scratch};
use super::source::{self, Cursor};

/// What a recovery reads, and where to.
pub(super) struct Prefix<'a> {
    pub(super) gather: &'a Gather,
    pub(super) regions: &'a DeviceRegions,
    pub(super) scratch: &'a mut Scratch,
    pub(super) counters: &'a mut Counters,
    /// Names this recovery.
    pub(super) recovery: RecoveryId,
}

impl TransmitContext {
    /// Carries a `RecoverContext` out.
    ///
    /// # Errors
    /// When the message is not as the command says, or is not what was sent first. The context then sends
    /// nothing until another recovery succeeds.
    pub(super) fn recover(
        &mut self,
        command: &Recover,
        prefix: Prefix<'_>,
    ) -> Result<(), ErrorCode> {
        self.note_frontier();
        self.state = State::Lost;
        // Whoever claims a longer message would have the device read up to 4 GiB for nothing.
        if command.len as usize > SCRATCH_BYTES {
            return Err(ErrorCode::BadLength);
        }
        let expected = match command.verify {
            Verify::Frontier => Some(self.frontier_of(command, prefix.gather)?),
            _ => None,
        };
        let Prefix {
            gather,
            regions,
            scratch,
            counters,
            recovery,
        } = prefix;
        let len = u32::try_from(gather.len()).map_err(|_| ErrorCode::BadLength)?;
        counters.tx_tls_dump_packets += gather.slices().len() as u64;
        counters.tx_tls_dump_bytes += u64::from(len);
        counters.tx_tls_resync_bytes += u64::from(len);
        counters.pcie_recovery += u64::from(len);

        self.walker = Walker::new(command.index);
        match command.verify {
            Verify::None => self.pass(gather, regions, scratch.reuse())?,
            Verify::WholeMessage | Verify::Frontier => {
                let out = scratch
                    .reuse()
                    .get_mut(..len as usize)
                    .ok_or(ErrorCode::BadLength)?;
                self.pass_into(gather, regions, out)?;
            }
        }
        self.check_position(command, len)?;

        let end = command.start + len;
        self.state = match command.verify {
            Verify::None => State::InSequence,
            Verify::WholeMessage => {
                let icv = self.engine.icv(command.len);
                let made = &scratch.reuse()[icv.start as usize..icv.end as usize];
                if !was_sent(made, icv.start, gather, regions)? {
                    return Err(ErrorCode::SourceChanged);
                }
                State::Replay(Replay { recovery, end })
            }
            Verify::Frontier => {
                if Some(digest(&self.walker, &mut self.engine)) != expected {
                    return Err(ErrorCode::SourceChanged);
                }
                match command.resume == end {
                    true => State::InSequence,
                    false => State::Replay(Replay { recovery, end }),
                }
            }
        };
        if let State::Replay(_) = self.state {
            scratch.keep(recovery, command.start);
        }
        if command.verify != Verify::None {
            counters.tx_tls_verified += 1;
        }
        self.tcpsn = command.resume;
        self.sent = self.sent.max(command.resume);
        Ok(())
    }

    /// The digest that the device has kept of the interrupted message, when the command means that one and all
    /// that was sent of it. The index needs no comparison: with another one the digest is another.
    fn frontier_of(&self, command: &Recover, gather: &Gather) -> Result<l5p::Digest, ErrorCode> {
        let this = |frontier: &Frontier| {
            frontier.start == command.start && u64::from(frontier.offset) == gather.len()
        };
        let frontier = self.frontier.filter(this).ok_or(ErrorCode::BadMessage)?;
        Ok(frontier.digest)
    }

    /// Passes the prefix through the engine; nobody wants the result.
    fn pass(
        &mut self,
        gather: &Gather,
        regions: &DeviceRegions,
        scratch: &mut [u8],
    ) -> Result<(), ErrorCode> {
        let mut cursor = Cursor::default();
        let most = scratch.len() as u32;
        while let Some(piece) = cursor.next(gather, regions, most)? {
            let out = &mut scratch[..piece.bytes.len()];
            self.walker
                .advance(&mut self.engine, piece.bytes, out)
                .map_err(|_| ErrorCode::NotAHeader)?;
            if piece.region.is_faulted() {
                return Err(ErrorCode::SourceFaulted);
            }
        }
        Ok(())
    }

    /// Passes the prefix through the engine into `out`, which is as long.
    fn pass_into(
        &mut self,
        gather: &Gather,
        regions: &DeviceRegions,
        mut out: &mut [u8],
    ) -> Result<(), ErrorCode> {
        let mut cursor = Cursor::default();
        while let Some(piece) = cursor.next(gather, regions, out.len() as u32)? {
            let (now, rest) = out.split_at_mut(piece.bytes.len());
            self.walker
                .advance(&mut self.engine, piece.bytes, now)
                .map_err(|_| ErrorCode::NotAHeader)?;
            if piece.region.is_faulted() {
                return Err(ErrorCode::SourceFaulted);
            }
            out = rest;
        }
        Ok(())
    }

    /// The prefix must have been of one message, of the length that the command gives.
    fn check_position(&self, command: &Recover, len: u32) -> Result<(), ErrorCode> {
        let right = if len == command.len {
            self.walker.at_boundary() && self.walker.index() == command.index.wrapping_add(1)
        } else {
            self.walker.offset() == len
                && self.walker.index() == command.index
                && self.walker.message_len().is_none_or(|l| l == command.len)
        };
        if right {
            Ok(())
        } else {
            Err(ErrorCode::BadMessage)
        }
    }
}

/// Whether the integrity value that was just made is the one that the device wrote into the source when it sent
/// the message first.
fn was_sent(
    made: &[u8],
    offset: u32,
    gather: &Gather,
    regions: &DeviceRegions,
) -> Result<bool, ErrorCode> {
    let mut stored = [0; 64];
    let stored = stored.get_mut(..made.len()).ok_or(ErrorCode::BadMessage)?;
    let mut cursor = Cursor::default();
    cursor.skip(gather, offset);
    source::copy(&mut cursor, gather, regions, stored)?;
    Ok(*stored == *made)
}

const _: () = assert!(SCRATCH_BYTES >= 16_384 + 256 + 5);
