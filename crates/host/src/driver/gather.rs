//! Where the bytes are that one descriptor names.

use driver::Recovery;
use nic::ring::{
    ContextId, InnerRecover, MAX_RECOVER_BYTES, MAX_RECOVER_SLICES, MAX_SEND_SLICES, Slice,
};
use tcp::SendQueue;
use wire::SeqNum;

use super::recovery::MessageSource;
use super::{Driver, Payload, Stopped};

/// Bytes that one descriptor can take: of one context, and no more slices than fit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    pub len: u32,
    pub context: Option<ContextId>,
    /// Whether the first byte's message is of memory that others may change.
    pub begins_mutable: bool,
    /// Whether any byte's message is.
    pub mutable: bool,
}

impl Driver {
    /// Collects the slices of bytes from `seq` on, up to `len`: those of the first byte's context, and if `alike` also
    /// of its mutability.
    #[inline]
    pub(super) fn gather(
        &mut self,
        queue: &SendQueue<Payload>,
        seq: SeqNum,
        len: u32,
        alike: bool,
    ) -> Run {
        let slices = &mut self.gather;
        slices.clear();
        let mut run: Option<Run> = None;
        let mut full = false;
        queue.slices(seq, len, |payload, offset, bytes| {
            let run = run.get_or_insert(Run {
                len: 0,
                context: payload.context,
                begins_mutable: payload.mutable,
                mutable: payload.mutable,
            });
            full |= payload.context != run.context || (alike && payload.mutable != run.mutable);
            if full {
                return;
            }
            payload.slices(offset, bytes, |slice| {
                full = full || !append_bounded(slices, slice, MAX_SEND_SLICES);
                if !full {
                    run.len += slice.len;
                    run.mutable |= payload.mutable;
                }
            });
        });
        run.unwrap_or(Run {
            len: 0,
            context: None,
            begins_mutable: false,
            mutable: false,
        })
    }

    /// Collects what the NIC must read before it can go on at `resume`. Gives where the inner protocol is, and how many bytes that
    /// are.
    pub(super) fn gather_prefix(
        &mut self,
        resume: SeqNum,
        recovery: &Recovery,
        queue: &SendQueue<Payload>,
        messages: &dyn MessageSource,
    ) -> Result<(Option<InnerRecover>, u32), Stopped> {
        let message = recovery.message;
        let inner = messages.inner(&message);
        let prefix = &mut self.prefix;
        prefix.clear();
        let mut inner_len = inner.map_or(0, |inner| inner.offset);
        if inner_len > 0 {
            let known = messages.inner_prefix(&message, &mut |tcpsn, len| {
                inner_len -= queue.slices(tcpsn, len, |payload, offset, len| {
                    payload.slices(offset, len, |slice| append(prefix, slice));
                });
            });
            if !known || inner_len > 0 {
                return Err(Stopped::NoMessage(resume));
            }
        }
        let covered = queue.slices(message.start, recovery.prefix, |payload, offset, len| {
            payload.slices(offset, len, |slice| append(prefix, slice));
        });
        if covered != recovery.prefix {
            return Err(Stopped::NoMessage(resume));
        }
        let bytes = inner.map_or(0, |inner| inner.offset) + recovery.prefix;
        if prefix.len() > MAX_RECOVER_SLICES || bytes > MAX_RECOVER_BYTES {
            return Err(Stopped::NoContext(resume));
        }
        Ok((inner, bytes))
    }
}

/// Appends a slice, or makes the last one longer if it follows on it in memory.
#[inline]
fn append(slices: &mut Vec<Slice>, slice: Slice) {
    append_bounded(slices, slice, usize::MAX);
}

#[inline]
fn append_bounded(slices: &mut Vec<Slice>, slice: Slice, most: usize) -> bool {
    if let Some(last) = slices.last_mut()
        && last.region == slice.region
        && last.offset + u64::from(last.len) == slice.offset
        && let Some(len) = last.len.checked_add(slice.len)
    {
        last.len = len;
        return true;
    }
    if slices.len() >= most {
        return false;
    }
    slices.push(slice);
    true
}

/// Cuts the list to its first `len` bytes.
pub(super) fn trim(slices: &mut Vec<Slice>, mut len: u32) {
    slices.retain_mut(|slice| {
        slice.len = slice.len.min(len);
        len -= slice.len;
        slice.len > 0
    });
}
