//! Urgent data (RFC 9293 §3.8.5), which stay in line (RFC 6093 §4).

use wire::tcp::Header;

use crate::{Connection, Received};

impl Connection {
    /// Takes the urgent pointer of a segment with URG, of which `received` is what [`handle_segment`](Self::handle_segment) has said: the urgent data
    /// end before `segment.seq + pointer` (RFC 6093 §2.1), which may be beyond its payload. Answers whether that is news to the application.
    #[cold]
    pub fn handle_urgent(&mut self, segment: &Header, pointer: u16, received: &Received) -> bool {
        if !received.counts_urgent {
            return false;
        }
        let end = segment.seq + u32::from(pointer);
        // Nothing comes behind the peer's FIN, if that is known.
        let end = self.rcv.fin.map_or(end, |fin| end.min(fin));
        let stream_end = self.rcv.nxt - u32::from(self.rcv.fin_taken);
        let ahead = i64::from(end.diff(stream_end));
        let until = self.stats.bytes_received.saturating_add_signed(ahead);
        let is_news = until > self.urgent_until.max(self.bytes_consumed());
        if is_news {
            self.urgent_until = until;
        }
        is_news
    }

    /// Unread bytes up to the end of the urgent data that the peer has told of, whether they have come yet or not; `None` if the application has
    /// read past that, or there are none.
    pub fn urgent_ahead(&self) -> Option<u64> {
        let ahead = self.urgent_until.checked_sub(self.bytes_consumed())?;
        (ahead > 0).then_some(ahead)
    }

    /// Bytes of the peer's that the application has read.
    fn bytes_consumed(&self) -> u64 {
        (self.stats.bytes_received).saturating_sub(self.rcv.unread().into())
    }
}
