//! Urgent data (RFC 9293 §3.8.5), which stay in line (RFC 6093 §4).

use wire::tcp::Header;

use crate::{Connection, Received};

impl Connection {
    /// Takes the urgent pointer of a segment with URG, of which `received` is what [`handle_segment`](Self::handle_segment) has said: the urgent data
    /// end before `segment.seq + pointer` (RFC 6093 §2.1), which may be beyond its payload. Answers whether that is news to the application.
    #[cold]
    pub fn handle_urgent(&mut self, segment: &Header, pointer: u16, received: &Received) -> bool {
        let is_next = segment.seq == self.rcv.nxt;
        let is_taken = received.data.is_some() || received.advanced || is_next;
        if !is_taken || self.rcv.fin_taken || !self.state.may_receive() {
            return false;
        }
        let end = segment.seq + u32::from(pointer);
        let ahead = i64::from(end.diff(self.rcv.nxt));
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
