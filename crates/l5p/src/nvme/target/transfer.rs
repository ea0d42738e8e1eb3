//! Data from host to controller: what R2Ts asked for, and what came (NVMe/TCP 1.0 §3.3.2.2).

use wire::nvme::{FatalError, FatalErrorStatus, H2CData};

/// R2Ts of one command that may be outstanding, whatever more the host allows.
const MAX_OUTSTANDING: usize = 4;

/// A command's data on its way from the host.
#[derive(Clone, Copy, Debug)]
pub(super) struct Transfer {
    /// Bytes in all.
    len: u32,
    /// Bytes of one R2T.
    piece: u32,
    /// Bytes that R2Ts have asked for.
    asked: u32,
    /// Bytes that have come.
    received: u32,
    /// What outstanding R2Ts still miss; empty ranges do not count.
    missing: [Extent; MAX_OUTSTANDING],
    /// How many R2Ts may be outstanding.
    allowed: usize,
    /// A data digest was wrong.
    pub damaged: bool,
}

/// Bytes from `next` up to `end`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Extent {
    start: u32,
    next: u32,
    end: u32,
}

impl Extent {
    fn is_over(&self) -> bool {
        self.next == self.end
    }
}

impl Transfer {
    /// `len` bytes, by R2Ts of at most `piece`, of which the host allows `max_r2t` and one more.
    pub(super) fn new(len: u32, piece: u32, max_r2t: u32) -> Transfer {
        Transfer {
            len,
            piece,
            asked: 0,
            received: 0,
            missing: [Extent::default(); MAX_OUTSTANDING],
            allowed: (max_r2t as usize).saturating_add(1).min(MAX_OUTSTANDING),
            damaged: false,
        }
    }

    /// The next R2T to send, as offset and length, if one may be sent.
    pub(super) fn next_r2t(&self) -> Option<(u32, u32)> {
        let outstanding = self
            .missing
            .iter()
            .filter(|extent| !extent.is_over())
            .count();
        let may_ask = outstanding < self.allowed && self.asked < self.len && !self.damaged;
        may_ask.then(|| (self.asked, self.piece.min(self.len - self.asked)))
    }

    /// The R2T of [`Transfer::next_r2t`] has been sent.
    pub(super) fn r2t_sent(&mut self) {
        let Some((start, len)) = self.next_r2t() else {
            return;
        };
        let free = self.missing.iter_mut().find(|extent| extent.is_over());
        *free.expect("fewer than allowed are outstanding") = Extent {
            start,
            next: start,
            end: start + len,
        };
        self.asked += len;
    }

    /// Takes in the header of data. It must go on where the data before it of the same R2T ended, and end no later
    /// than what the R2T asked for; LAST_PDU must be set exactly at that end (§3.3.2.2, §3.6.2.8).
    pub(super) fn data(&mut self, pdu: &H2CData) -> Result<(), FatalError> {
        let end = pdu.data_offset + pdu.data_len;
        let asked = |extent: &&mut Extent| {
            !extent.is_over() && (extent.start..extent.end).contains(&pdu.data_offset)
        };
        let Some(extent) = self.missing.iter_mut().find(asked) else {
            // What R2Ts have asked for and do not miss any more has come before.
            return Err(FatalError::of(match pdu.data_offset < self.asked {
                true => FatalErrorStatus::SEQUENCE,
                false => FatalErrorStatus::DATA_OUT_OF_RANGE,
            }));
        };
        if end > extent.end {
            return Err(FatalError::of(FatalErrorStatus::DATA_OUT_OF_RANGE));
        }
        if pdu.data_offset != extent.next {
            return Err(FatalError::of(FatalErrorStatus::SEQUENCE));
        }
        if pdu.last != (end == extent.end) {
            return Err(FatalError::field(1));
        }
        extent.next = end;
        self.received += pdu.data_len;
        Ok(())
    }

    /// Whether no more data comes: all has, or the rest is not asked for since some was damaged.
    pub(super) fn is_over(&self) -> bool {
        let all_asked = self.asked == self.len || self.damaged;
        all_asked && self.received == self.asked
    }
}
