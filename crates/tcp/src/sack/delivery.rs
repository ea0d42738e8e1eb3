//! What one ACK tells.

use wire::SeqNum;

use super::Record;
use crate::time::{Nanos, Time};

/// What one ACK tells was delivered.
#[derive(Clone, Debug)]
pub(crate) struct Delivery {
    pub(crate) now: Time,
    pub(crate) min_rtt: Option<Nanos>,
    /// TSval that the ACK echoes, beside ours at the epoch, to tell which transmission is meant (RFC 8985 §6.2 step 2).
    pub(crate) echo: Option<(u32, u32)>,
    /// Bytes that were not delivered before.
    pub(crate) bytes: u32,
    /// Of these, bytes that the cumulative acknowledgment covers.
    pub(crate) in_order: u32,
    /// The one sent last: when, its end, and whether it was a retransmission.
    pub(crate) newest: Option<(Time, SeqNum, bool)>,
    /// When the oldest and the newest of those sent once were sent.
    pub(crate) once: Option<(Time, Time)>,
    /// Something sent once came after something sent later.
    pub(crate) reordered: bool,
    /// Something that was sent again is among these.
    pub(crate) again: bool,
}

impl Delivery {
    pub(crate) fn new(now: Time, min_rtt: Option<Nanos>, echo: Option<(u32, u32)>) -> Self {
        Self {
            now,
            min_rtt,
            echo,
            bytes: 0,
            in_order: 0,
            newest: None,
            once: None,
            reordered: false,
            again: false,
        }
    }

    pub(super) fn add(&mut self, record: &Record, end: SeqNum, bytes: u32, delivered_to: SeqNum) {
        self.bytes += bytes;
        self.again |= record.again;
        if record.again {
            if self.is_ambiguous(record) {
                return;
            }
        } else {
            self.reordered |= end.before(delivered_to);
            let (oldest, newest) = self.once.unwrap_or((record.sent_at, record.sent_at));
            self.once = Some((oldest.min(record.sent_at), newest.max(record.sent_at)));
        }
        if self.newest.is_none_or(|(at, newest_end, _)| {
            (record.sent_at, true) > (at, newest_end.at_or_after(end))
        }) {
            self.newest = Some((record.sent_at, end, record.again));
        }
    }

    /// The ACK may be for an earlier transmission than the last (RFC 8985 §6.2 step 2).
    fn is_ambiguous(&self, record: &Record) -> bool {
        let echoes_earlier = self.echo.is_some_and(|(echo, origin)| {
            let sent = origin.wrapping_add((record.sent_at.0 / crate::time::MILLISECOND) as u32);
            SeqNum(echo).before(SeqNum(sent))
        });
        echoes_earlier
            || self
                .min_rtt
                .is_some_and(|minimum| self.now.since(record.sent_at) < minimum)
    }
}
