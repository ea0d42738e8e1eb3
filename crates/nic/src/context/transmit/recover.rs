//! Bringing a transmit context to where a retransmission begins (Autonomous NIC offloads §4.2), and proving that what is
//! retransmitted is what was sent.

use l5p::Event;

use crate::counters::Counters;
use crate::ring::{
    DeviceRegions, ErrorCode, Gather, InnerRecover, MAX_RECOVER_BYTES, RecoverContext, Verify,
};

use super::scratch::{SCRATCH_BYTES, Scratch};
use super::source::{self, Cursor};
use super::{Frontier, RecoveryId, Replay, State, TransmitContext};

/// What a recovery reads, and where to.
pub(crate) struct Prefix<'a> {
    pub(crate) gather: &'a Gather,
    pub(crate) regions: &'a DeviceRegions,
    pub(crate) scratch: &'a mut Scratch,
    pub(crate) counters: &'a mut Counters,
    /// Names this recovery.
    pub(crate) recovery: RecoveryId,
}

impl TransmitContext {
    /// Carries a `RecoverContext` out.
    ///
    /// # Errors
    /// When the message is not as the command says, or is not what was sent first. The context then sends
    /// nothing until another recovery succeeds.
    pub(crate) fn recover(
        &mut self,
        command: &RecoverContext,
        mut prefix: Prefix<'_>,
    ) -> Result<(), ErrorCode> {
        if command.verify == Verify::Seek {
            return Err(ErrorCode::Unsupported);
        }
        self.note_frontier();
        self.state = State::Lost;
        self.check_command(command, prefix.gather)?;
        self.layers.restart(command.index, command.inner)?;
        let inner = command.inner.map_or(0, |inner| inner.offset);
        let len = (prefix.gather.len() as u32)
            .checked_sub(inner)
            .ok_or(ErrorCode::BadLength)?;
        let expected = match command.verify {
            Verify::Frontier => Some(self.frontier_of(command, len)?),
            _ => None,
        };
        self.count_read(prefix.gather, len, inner, prefix.counters);
        self.pass_prefix(command, len, &mut prefix)?;
        self.check_position(command, len)?;

        let replays = match command.verify {
            Verify::None | Verify::Seek => false,
            Verify::WholeMessage => {
                self.check_icv(command, &mut prefix)?;
                true
            }
            Verify::Frontier if Some(self.layers.digest()) != expected => {
                return Err(ErrorCode::SourceChanged);
            }
            Verify::Frontier => command.resume != command.start + len,
        };
        self.state = match replays {
            true => State::Replay(Replay {
                recovery: prefix.recovery,
                end: command.start + len,
            }),
            false => State::InSequence,
        };
        if replays {
            prefix.scratch.keep(prefix.recovery, command.start);
        }
        if command.verify != Verify::None {
            self.count_outermost(prefix.counters, Event::TxVerified, 1);
        }
        self.tcpsn = command.resume;
        self.sent = self.sent.max(command.resume);
        Ok(())
    }

    /// Brings the layers behind the prefix, whose last `len` bytes are of the message. What is to be proved is transformed into the
    /// scratch, from where it may be sent.
    fn pass_prefix(
        &mut self,
        command: &RecoverContext,
        len: u32,
        prefix: &mut Prefix<'_>,
    ) -> Result<(), ErrorCode> {
        let (gather, regions) = (prefix.gather, prefix.regions);
        let mut cursor = Cursor::default();
        if let Some(inner) = command.inner {
            let scratch = prefix.scratch.reuse();
            self.pass_inner(inner, &mut cursor, gather, regions, scratch)?;
        }
        let scratch = prefix.scratch.reuse();
        match command.verify {
            Verify::None | Verify::Seek => self.pass(&mut cursor, gather, regions, scratch),
            Verify::WholeMessage | Verify::Frontier => {
                let out = scratch.get_mut(..len as usize);
                let out = out.ok_or(ErrorCode::BadLength)?;
                self.pass_into(&mut cursor, gather, regions, out)
            }
        }
    }

    /// The integrity check value that was made of the whole message is the one that was written to its end when it was first sent.
    fn check_icv(
        &self,
        command: &RecoverContext,
        prefix: &mut Prefix<'_>,
    ) -> Result<(), ErrorCode> {
        let inner = command.inner.map_or(0, |inner| inner.offset);
        let icv = self.layers.icv(command.len);
        let made = &prefix.scratch.reuse()[icv.start as usize..icv.end as usize];
        match was_sent(made, inner + icv.start, prefix.gather, prefix.regions)? {
            true => Ok(()),
            false => Err(ErrorCode::SourceChanged),
        }
    }

    /// Whether the context can do what the command asks for.
    fn check_command(&self, command: &RecoverContext, gather: &Gather) -> Result<(), ErrorCode> {
        let replaces = self.layers.replaces();
        // More would have the device read up to 4 GiB for nothing.
        if gather.len() > u64::from(MAX_RECOVER_BYTES)
            || replaces && command.len as usize > SCRATCH_BYTES
        {
            return Err(ErrorCode::BadLength);
        }
        if !replaces && command.verify != Verify::None {
            return Err(ErrorCode::Unsupported);
        }
        Ok(())
    }

    /// The digest that the device has kept of the interrupted message, when the command means that one and all
    /// that was sent of it. The index needs no comparison: with another one the digest is another.
    fn frontier_of(&self, command: &RecoverContext, len: u32) -> Result<l5p::Digest, ErrorCode> {
        let this = |frontier: &Frontier| frontier.start == command.start && frontier.offset == len;
        let frontier = self.frontier.filter(this).ok_or(ErrorCode::BadMessage)?;
        Ok(frontier.digest)
    }

    /// Brings the inner layer to where the outer message begins.
    fn pass_inner(
        &mut self,
        inner: InnerRecover,
        cursor: &mut Cursor,
        gather: &Gather,
        regions: &DeviceRegions,
        scratch: &mut [u8],
    ) -> Result<(), ErrorCode> {
        let layer = self.layers.inner().ok_or(ErrorCode::BadParameters)?;
        let mut left = inner.offset;
        while left > 0 {
            let piece = cursor
                .next(gather, regions, left.min(scratch.len() as u32))?
                .ok_or(ErrorCode::BadLength)?;
            layer
                .absorb(piece.bytes.into(), &mut scratch[..piece.bytes.len()])
                .map_err(|_| ErrorCode::NotAHeader)?;
            if piece.region.is_faulted() {
                return Err(ErrorCode::SourceFaulted);
            }
            left -= piece.bytes.len() as u32;
        }
        let position = layer.position();
        let right = position.offset == inner.offset
            && position.index == inner.index
            && position.len.is_none_or(|len| len == inner.len);
        match right {
            true => Ok(()),
            false => Err(ErrorCode::BadMessage),
        }
    }

    /// Passes the rest of the prefix through the engines, without an output.
    fn pass(
        &mut self,
        cursor: &mut Cursor,
        gather: &Gather,
        regions: &DeviceRegions,
        scratch: &mut [u8],
    ) -> Result<(), ErrorCode> {
        let most = scratch.len() as u32;
        while let Some(piece) = cursor.next(gather, regions, most)? {
            self.layers
                .absorb(piece.bytes.into(), &mut scratch[..piece.bytes.len()])
                .map_err(|_| ErrorCode::NotAHeader)?;
            if piece.region.is_faulted() {
                return Err(ErrorCode::SourceFaulted);
            }
        }
        Ok(())
    }

    /// Passes the rest of the prefix through the engines into `out`, which is as long.
    fn pass_into(
        &mut self,
        cursor: &mut Cursor,
        gather: &Gather,
        regions: &DeviceRegions,
        mut out: &mut [u8],
    ) -> Result<(), ErrorCode> {
        while let Some(piece) = cursor.next(gather, regions, out.len() as u32)? {
            let (now, rest) = out.split_at_mut(piece.bytes.len());
            self.layers
                .advance(piece.bytes.into(), now)
                .map_err(|_| ErrorCode::NotAHeader)?;
            if piece.region.is_faulted() {
                return Err(ErrorCode::SourceFaulted);
            }
            out = rest;
        }
        Ok(())
    }

    /// The prefix must have been of one message, of the length that the command gives.
    fn check_position(&self, command: &RecoverContext, len: u32) -> Result<(), ErrorCode> {
        let position = self.layers.position();
        let right = if len == command.len {
            position.offset == 0 && Some(position.index) == command.index.checked_add(1)
        } else {
            position.offset == len
                && position.index == command.index
                && position.len.is_none_or(|len| len == command.len)
        };
        if right {
            Ok(())
        } else {
            Err(ErrorCode::BadMessage)
        }
    }

    /// Counts a recovery that reads `gather`: of the outermost message `len` bytes, of the inner one before it `inner`.
    fn count_read(&self, gather: &Gather, len: u32, inner: u32, counters: &mut Counters) {
        let (outermost, inside) = self.layers.ids().split_at(1);
        let l5 = &mut counters.l5;
        l5.count(
            outermost[0],
            Event::TxPrefixReads,
            gather.slices().len() as u64,
        );
        l5.count(outermost[0], Event::TxPrefixBytes, len.into());
        l5.count(outermost[0], Event::TxPassedBytes, len.into());
        for id in inside {
            l5.count(*id, Event::TxPassedBytes, (inner + len).into());
        }
        counters.pcie_recovery += u64::from(inner + len);
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
