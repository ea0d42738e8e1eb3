//! HTTP responses whose content is compressed (Autonomous NIC offloads §3.1, §7): the NIC decodes it into buffers that are mapped beforehand,
//! and software does what the NIC could not.
//!
//! [`Stack::start_response`](crate::Stack::start_response) comes before the request is sent, so that the NIC sees the response's first byte.
//! [`Stack::read_response`](crate::Stack::read_response) gives the head, and then the content, decoded.

mod buffers;
mod response;

pub use l5p::http::{Coding, ContentError, MAX_KEPT, ResponseError, ResponseHead};

pub(crate) use response::Response;

use crate::SocketError;

/// Why a response can't be read on.
#[derive(Debug, thiserror::Error)]
pub enum ReadResponseError {
    /// The socket gives nothing more, or nothing now.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// The response is not what it has to be. The connection is of no more use.
    #[error(transparent)]
    Content(#[from] ContentError),
}

/// How far a response was read.
#[derive(Clone, Copy, Debug)]
pub struct ResponseInfo<'a> {
    /// Its head, once it is there.
    pub head: Option<&'a ResponseHead>,
    /// It is whole.
    pub is_done: bool,
    /// Bytes of content so far, as they were on the way.
    pub taken: u64,
    /// Bytes of content so far, decoded.
    pub made: u64,
    /// Those of them that the NIC has decoded.
    pub made_by_nic: u64,
}
