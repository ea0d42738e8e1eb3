//! HTTP as pure functions and state machines: no sockets, no files, no clock.
//!
//! A server's [`Connection`] turns received bytes into [`Request`]s and refusals, [`StreamHead`] does so for the fields of a stream of
//! HTTP/2; [`plan()`] turns a request and what is known of the file into a [`Response`]. The client's side is [`l5p::http`].

mod authority;
mod conditional;
mod connection;
mod find_head;
mod head;
mod noted;
mod plan;
mod range;
mod request;
mod response;
mod target;

pub use authority::is_authority;
pub use conditional::{EntityTag, Validators};
pub use connection::{Action, Connection, Limits};
pub use find_head::{Head, find_head};
pub use head::{StreamHead, decimal};
pub use noted::Noted;
pub use plan::{Content, Piece, Response, plan, plan_bytes, redirect, refuse, refuse_unread};
pub use range::ByteRange;
pub use request::{Method, Request, Status};
pub use target::{Target, encode_segment};

#[cfg(test)]
mod tests;
