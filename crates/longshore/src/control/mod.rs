//! The control socket: a running server answers with its counters and sockets.
//!
//! A Unix stream socket that takes one request per line and answers each with one line, both JSON:
//! `{"command":"stat"}`, `{"command":"sockets"}`, `{"command":"restore","peer":null}`, `{"command":"reload"}`, and of a
//! load balancer `{"command":"drain","pool":"app","backend":"10.9.0.1:8081","drains":true}`; of a NIC
//! `{"command":"fault","host":"/run/guest.sock","fault":{"drop":{"frames":20}}}`.

mod client;
mod commands;
mod conversation;
pub mod counters;
mod glossary;
mod protocol;
mod server;
mod service;
mod several;
mod stop;
#[cfg(test)]
mod tests;

pub mod fault;
pub mod options;
pub mod print;

pub use client::{Client, ask};
pub use commands::{reload, reloaded, restore, ss, stat};
pub use conversation::{Conversation, IDLE, line};
pub use glossary::Glossary;
pub use protocol::{Answer, CounterGroup, NvmeFigures, Request, Socket, TlsFigures, offload};
pub use server::{ControlError, Server, bind};
pub use service::Service;
pub use several::{one_of, totals_of_nics};
pub use stop::stop;
