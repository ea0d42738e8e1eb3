//! Pattern matching on a stream (Autonomous NIC offloads §7): fixed strings and regular expressions.
//!
//! - [`Patterns`] is a set of them, read from a text, as automata whose state is two numbers.
//! - [`Engine`] is the NIC's part: it scans the stream in pieces of any size, and gives the matches that end in them as
//!   [`Note`](crate::Note)s.
//! - [`Scanner`] is the host's part: it scans what the NIC has not, and finds what a scan of the whole stream by software finds.
//!
//! # Windows
//! A stream of bytes has no messages that a search could be cut by. So the stream is cut into *windows* of [`WINDOW`]
//! bytes, from where the NIC's context begins. They are the engine's messages: they have no header, and their length is known
//! without one. In each window the engine begins anew, so that it needs nothing of an earlier one that it has lost.
//!
//! Matches across two windows are found all the same. The engine tells in which state it was before and behind the bytes that it
//! has scanned. The scanner has the state that the whole stream leads to. It goes on in software from its own state and from the
//! engine's side by side, until the two are the same: from there on the engine's matches are those of the whole stream. Mostly that
//! is after no bytes at all, and for strings after fewer than the longest has. An expression that can wait for its end for long,
//! as `/a.*b/` does behind an `a` up to the end of the line, keeps the two states apart for as long, and software scans for as long.
//!
//! The engine's states protect against evasion too. A NIC sees segments that TCP drops, and a forged one takes the engine to a
//! state that hides what follows. The scanner sees that the engine's state is not its own, and scans in software for as long.
//!
//! States are numbers of tables. Both sides make theirs from the same text, with the same version of this crate and its dependencies.
//!
//! # Costs
//! In packets of 1,448 bytes, on one core of an AMD EPYC (Zen 5) that shares it with others, by `cargo run --release -p longshore-l5p
//! --example pattern_speed`; the best of several runs, of which busy ones had two thirds:
//!
//! | patterns | tables | engine | host, for a packet that the NIC has scanned |
//! | --- | --- | --- | --- |
//! | 10 strings | 20 KiB | 1.5 GB/s | 50 ns |
//! | 1,000 strings | 1.8 MiB | 1.1 GB/s | 90 ns |
//! | 5,000 strings | 8.7 MiB | 0.95 GB/s | 120 ns |
//! | 4 expressions | 30 KiB | 1.4 GB/s | 50 ns |
//! | 1,000 strings and 4 expressions | 1.8 MiB | 0.8 GB/s | 110 ns |
//!
//! In software such a packet takes 1,000 to 1,800 ns. A packet with more than 14 matches is scanned twice, by the NIC and by software.

mod automata;
mod engine;
mod expressions;
#[cfg(test)]
mod fixture;
mod pair;
mod patterns;
mod protocol;
mod scanner;
mod strings;
mod text;

pub use crate::windows::WINDOW;
pub use engine::Engine;
pub use patterns::{Patterns, PatternsError, TABLES};
pub use protocol::Parameters;
pub use scanner::{Match, Scanner};
pub use text::LineError;

/// The engine's notes ([`Note::code`](crate::Note)).
mod code {
    /// The engine begins to scan in this state ([`State`](super::automata::State)).
    pub const BEGIN: u32 = 0;
    /// The pattern of this number ends here.
    pub const MATCH: u32 = 1;
    /// The engine has scanned up to here, and is in this state.
    pub const END: u32 = 2;
}
