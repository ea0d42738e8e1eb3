//! What the one timer of a connection in teardown does.

use tcp::State;

use super::Nanos;
use super::arrival::Next;
use super::entry::{Entry, NEVER};

/// Time-outs in a row after which a peer is given up: with an RTO of 200 ms that is R2's 100 s (RFC 9293 §3.8.3), and as many
/// as Linux allows a connection that no application holds.
const RETRIES: u8 = 8;

impl Entry {
    /// The deadline has come.
    pub(super) fn handle_timeout(&mut self, now: Nanos) -> Next {
        self.deadline = NEVER;
        match self.state {
            State::TimeWait | State::FinWait2 => return Next::End,
            State::Closed => return Next::Stay,
            _ if self.snd.backoff.tries() >= RETRIES => return Next::Abort,
            _ => {}
        }
        self.snd.backoff.back_off();
        self.deadline = now + self.rto();
        if self.is_anything_outstanding() {
            // RFC 6298 §5.4, RFC 5681 §3.1: everything is held for lost, and one segment goes.
            self.snd.send = self.snd.una;
            self.snd.recover = self.snd.nxt;
            self.snd.cwnd = 1;
            self.snd.duplicates = 0;
            self.snd.in_fast_recovery = false;
            self.owes.oldest = false;
        } else if self.snd.window.bytes() > 0 {
            self.owes.fill = true;
        } else {
            // RFC 9293 §3.8.6.1.
            self.owes.probe = true;
        }
        Next::Stay
    }
}
