//! How long what was sent in place is still needed.

use wire::SeqNum;

use crate::SocketId;
use crate::stack::Stack;

/// A place in what a socket sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendMark(SeqNum);

impl Stack {
    /// The place behind what has been queued on a socket so far. `None`: there is no such socket.
    pub fn send_mark(&self, id: SocketId) -> Option<SendMark> {
        let socket = self.sockets.get(id)?;
        Some(SendMark(socket.send.end()))
    }

    /// Whether the peer has acknowledged all that was queued before `mark`, so that memory sent in place may change again; also
    /// when there is no such socket any more. To be asked before 2 GiB more have been sent.
    pub fn is_acknowledged(&self, id: SocketId, mark: SendMark) -> bool {
        let socket = self.sockets.get(id);
        socket.is_none_or(|socket| socket.send.start().at_or_after(mark.0))
    }
}
