//! What may be wrong with a response.

/// A response that cannot be understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResponseError {
    /// Its head is not HTTP/1.
    #[error("the server's answer is not HTTP/1: {0}")]
    Head(#[from] httparse::Error),
    /// Its head does not end.
    #[error("the server's answer has a head of more than 64 KiB")]
    HeadTooLarge,
    /// Its length is no number.
    #[error("the server says Content-Length: {0}, which is no number")]
    Length(String),
    /// It has two lengths, which differ.
    #[error("the server says Content-Length: {second}, where it has said {first} before")]
    Lengths {
        /// The one that came first.
        first: u64,
        /// The other one.
        second: u64,
    },
    /// Its content is coded in a way that we did not ask for.
    #[error("the server uses Transfer-Encoding: {0}, which was not asked for")]
    Coding(String),
    /// A chunk is malformed.
    #[error("the server sent a malformed chunk")]
    Chunk,
    /// The stream ended before the response.
    #[error("the connection ended before the whole answer had come")]
    CutShort,
}
