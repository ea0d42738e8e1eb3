//! A path that takes smaller packets only.

use tcp::MIN_MSS;
use wire::SeqNum;

use super::entry::Entry;

impl Entry {
    /// The segment at `seq` was too big: its path takes IP packets of `mtu` bytes. What is in flight is sent again, in smaller
    /// ones. Returns whether anything has changed.
    pub(super) fn handle_path_mtu(&mut self, seq: SeqNum, mtu: u32) -> bool {
        // RFC 5927 §4.1: who can't tell what is in flight has not seen it.
        let in_flight = self.snd.una.at_or_before(seq) && seq.before(self.snd.nxt);
        let mss = mtu
            .saturating_sub(self.headers_len().into())
            .max(u32::from(MIN_MSS) - self.options_len());
        if !in_flight || mss >= u32::from(self.snd.mss) {
            return false;
        }
        self.snd.mss = mss as u16;
        // It is not lost to congestion (RFC 1191 §6.4).
        self.snd.send = self.snd.una;
        self.snd.recover = self.snd.nxt;
        true
    }
}
