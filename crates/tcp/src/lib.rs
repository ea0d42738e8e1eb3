//! TCP as a pure state machine: it moves numbers, never bytes, and knows neither a clock nor a network.
//!
//! # The poll contract
//! * `handle_*(now, …)` takes input: [`Connection::handle_segment`], [`Connection::handle_timeout`].
//! * Commands change what the application wants: [`Connection::queue`], [`Connection::consumed`],
//!   [`Connection::close`], [`Connection::abort`].
//! * `poll_*(…)` gives output until it gives `None`: [`Connection::poll_transmit`], [`Connection::poll_event`]. Call them
//!   after every batch of input, timeouts and commands.
//! * [`Connection::poll_timeout`] says when to call [`Connection::handle_timeout`]; it may change with every call.
//!
//! `now` never goes back. Nothing blocks, and nothing allocates per packet in steady state.
//!
//! # Where the payload is
//! The owner of a connection keeps the payload in whatever form it likes, in a [`SendQueue`] and a [`Reassembly`].
//! [`Connection::queue`] says that so many bytes were appended at [`Connection::write_seq`]; a [`Transmit`] names the
//! range to send; [`Event::Acked`] lets go of it. [`Connection::handle_segment`] says which part of a segment's payload
//! to keep; what lies before [`Connection::rcv_nxt`] is in order; [`Connection::consumed`] reopens the window.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod acceptance;
mod ack;
mod arrival;
mod backoff;
mod closing;
mod commands;
mod config;
mod congestion;
mod control_block;
pub mod cookie;
mod ecn;
mod frto;
mod getters;
mod handshake;
mod info;
pub mod isn;
mod listen;
mod mirror;
mod options;
mod output;
mod pacing;
mod path;
mod peer_window;
mod rack;
mod ranges;
mod reassembly;
mod recovery;
mod recv;
mod reset;
mod rtt;
mod sack;
mod segment;
mod send;
mod send_queue;
mod sender;
mod settings;
mod state;
mod tcb;
#[cfg(test)]
mod tests;
mod time;
mod time_wait;
mod timeout;
mod timer;
mod timer_snapshot;
mod unreported;
mod urgent;

pub use acceptance::{Acceptance, ChallengeLimit, ReceiveSpace, SendSpace};
pub use backoff::Backoff;
pub use closing::Closing;
pub use config::{Algorithm, Config, EcnMode, KeepAlive};
pub use control_block::{Tcb, TcbEcn, TcbTimestamps};
pub use handshake::Handshake;
pub use info::ConnectionInfo;
pub use isn::Initial;
pub use listen::{AckAction, Cookies, ListenConfig, Listener, SynAction};
pub use mirror::Disagreement;
pub use options::{MIN_MSS, TIMESTAMPS_LEN};
pub use output::{Accepted, CloseReason, Counted, Event, Received, Transmit};
pub use peer_window::PeerWindow;
pub use reassembly::Reassembly;
pub use reset::reset_for;
pub use send_queue::{Chunk, SendQueue};
pub use state::State;
pub use tcb::Connection;
pub use time_wait::{TimeWait, TimeWaitEntry, Verdict, is_new_incarnation};
pub use timer_snapshot::TimerSnapshot;
