//! HTTP/1.1 as a proxy sees it: heads that are understood and rewritten, content whose end is found.
//!
//! What two readers of the same bytes could understand differently is refused, so that nobody smuggles a request past us
//! inside of another one (RFC 9112 §11.2): both `Content-Length` and `Transfer-Encoding`, several lengths, line ends
//! other than CR LF, folded lines, codings that we do not know.

mod extension;
mod fields;
mod framing;
mod refusal;
mod request;
mod response;
mod rewrite;
#[cfg(test)]
mod tests;
mod trailers;

pub use fields::is_token;
pub use framing::{Body, Framing, PieceKind};
pub use refusal::{answer, refusal};
pub use request::{MAX_FIELDS, Request, Upgrading};
pub use response::{RequestTraits, Response};
pub use rewrite::{Client, RequestRewrite, ResponseRewrite, rewrite_request, rewrite_response};
