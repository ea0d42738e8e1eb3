//! HTTP/1.1 as a proxy sees it: heads that are understood and rewritten, content whose end is found.
//!
//! What two readers of the same bytes could understand differently is refused, so that nobody smuggles a request past us
//! inside of another one (RFC 9112 §11.2): both `Content-Length` and `Transfer-Encoding`, several lengths, line ends
//! other than CR LF, folded lines, codings that we do not know.

mod fields;
mod framing;
mod head;
mod refusal;
mod request;
mod response;
mod rewrite;
#[cfg(test)]
mod tests;

pub use fields::is_token;
pub use framing::{Body, Framing};
pub use head::{Head, MAX_FIELDS, find_head};
pub use refusal::refusal;
pub use request::{Request, Upgrading};
pub use response::{RequestTraits, Response};
pub use rewrite::{Client, RequestRewrite, ResponseRewrite, rewrite_request, rewrite_response};
