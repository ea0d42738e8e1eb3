//! What else is done with the bytes of messages, where a [recovery](super::recovery) knows their place.

use std::fmt::Debug;
use std::ops::Range;

use l5p::{MsgState, Placement};
use wire::SeqNum;

/// Sees the messages that a recovery follows, and their bytes behind the header, but for those that may have been
/// passed up before.
pub(crate) trait Observer: Debug + Send {
    /// What is kept of one message, for bytes that come later.
    type Snapshot: Copy + Debug + Send;
    /// What was noted of a packet.
    type List: Default + Debug + Send;
    /// Whether there is anything to do; else all of it is compiled away.
    const OBSERVES: bool;
    /// The host's word for where a message begins is enough to offload it. Else a whole message must pass its check first.
    const TRUSTS: bool;

    /// A message begins whose header is known.
    fn begin(&mut self, list: &mut Self::List, message: MsgState, placement: Option<Placement>);

    /// What is kept of the message that has begun.
    fn snapshot(&self) -> Option<Self::Snapshot>;

    /// That message is over, or not known any more.
    fn end(&mut self);

    /// Bytes `range` of the message of this snapshot are the packet's from its byte `at` on.
    fn note(
        &mut self,
        list: &mut Self::List,
        snapshot: &Self::Snapshot,
        range: Range<u32>,
        at: u32,
    );

    /// Nothing is to be done with the packet after all.
    fn clear(list: &mut Self::List);

    /// From where on bytes beyond the frontier may have been seen, when some have been.
    fn seen_from(&self) -> SeqNum;

    /// Sets [`seen_from`](Self::seen_from).
    fn set_seen_from(&mut self, seq: SeqNum);
}

/// For protocols whose bytes just stay in the stream.
impl Observer for () {
    type Snapshot = std::convert::Infallible;
    type List = ();
    const OBSERVES: bool = false;
    const TRUSTS: bool = false;

    fn begin(&mut self, _: &mut (), _: MsgState, _: Option<Placement>) {}

    fn snapshot(&self) -> Option<Self::Snapshot> {
        None
    }

    fn end(&mut self) {}

    fn note(&mut self, _: &mut (), _: &Self::Snapshot, _: Range<u32>, _: u32) {}

    fn clear(_: &mut ()) {}

    fn seen_from(&self) -> SeqNum {
        SeqNum(0)
    }

    fn set_seen_from(&mut self, _: SeqNum) {}
}
