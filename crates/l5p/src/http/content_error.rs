//! What may be wrong with a response's content.

use std::io;

use super::coding::Damaged;
use super::response_error::ResponseError;

/// What is wrong with a response.
#[derive(Debug, thiserror::Error)]
pub enum ContentError {
    /// It is no response.
    #[error(transparent)]
    Response(#[from] ResponseError),
    /// Its content is coded otherwise than was asked for.
    #[error("the server answers with the content coding {0:?}, which was not asked for")]
    Coding(String),
    /// What is compressed is damaged.
    #[error(transparent)]
    Damaged(#[from] Damaged),
    /// What is compressed has no end.
    #[error("the compressed content is cut short")]
    CutShort,
    /// The content becomes more than is allowed.
    #[error("the content has more than {limit} bytes, of {taken} on the way")]
    TooLarge {
        /// Bytes before decoding, so far.
        taken: u64,
        /// Bytes that were allowed.
        limit: u64,
    },
    /// The content can't be written.
    #[error(transparent)]
    Unwritable(io::Error),
    /// Memory has run out.
    #[error("there is no memory to decompress the content")]
    NoMemory,
}
