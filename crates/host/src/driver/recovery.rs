//! What the L5 protocol offers the driver.

use nic::ring::InnerRecover;
use wire::SeqNum;

/// A message of an offloaded flow: what `l5o_get_tx_msgstate` answers (Autonomous NIC offloads, Listing 2).
pub(crate) use l5p::MsgState;

/// The L5 protocol's side of transmit recovery.
pub(crate) trait MessageSource {
    /// The message that contains the byte at `tcpsn`, if it is kept still.
    fn l5o_get_tx_msgstate(&self, tcpsn: SeqNum) -> Option<MsgState>;

    /// Where the inner protocol of a stack is at the beginning of a message of the outer one.
    fn inner(&self, message: &MsgState) -> Option<InnerRecover> {
        let _ = message;
        None
    }

    /// Calls `f(tcpsn, bytes)` for each run of what the inner message had before that. False when some of it is not known any more.
    fn inner_prefix(&self, message: &MsgState, f: &mut dyn FnMut(SeqNum, u32)) -> bool {
        let _ = (message, f);
        true
    }
}
