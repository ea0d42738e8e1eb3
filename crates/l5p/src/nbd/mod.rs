//! NBD as a layer-5 protocol: replies whose data a NIC places where the client wants them.
//!
//! The header of a reply says neither which buffer its data belong to nor, if it is a simple one, how long it is: only the
//! client's [`Cookie`] comes back with it. So the client puts into the cookie what a NIC needs.
//!
//! [`Engine`] is the NIC's part. A client has [`Handshake`], then [`Framing`] as its protocol of PDUs, and [`Requests`].

mod cookie;
mod engine;
mod framing;
mod handshake;
mod parameters;
mod protocol;
mod requests;
#[cfg(test)]
mod tests;

pub use cookie::Cookie;
pub use engine::Engine;
pub use framing::{Framing, NbdError, Pdu, Sender};
pub use handshake::{Export, Handshake, HandshakeError, Outcome};
pub use parameters::Parameters;
pub use requests::{Ended, Incoming, RequestError, Requests};
