//! Virtual-time worlds: hosts, NICs and impaired links stepped in one thread, repeatable from a seed.
//!
//! A [`World`] has a clock of its own, which jumps to the next wake-up of anything in it; an hour of retransmission
//! timeouts takes as long as its packets take to compute. [`oracle`] drives one list of operations through a world with
//! TLS offload and through one with plain software, where both have to give the same bytes and the same ends.
//! [`connections`] does so with whole connections, many at a time, with and without what NICs do for them. In all of them
//! connections may be handed off to the NICs, and taken back, at any time ([`Lending`]). [`Plaintext`]
//! watches the wire meanwhile. [`blocks`] does the same with commands to an NVMe namespace; [`storage`] is what it takes for
//! that. [`explore`] makes every run of something within bounds. [`handoff`]
//! repeats the experiments of "Connection handoff policies" with costs.
//!
//! # Order of calls
//! Between calls of [`World::step`] the applications use their stacks ([`World::stack`]) as they would anywhere;
//! `step` moves packets until now, and answers whether anything moved. When neither the applications nor `step` have
//! anything to do, [`World::advance`] jumps to the next wake-up.
#![forbid(unsafe_code)]
#![allow(
    clippy::result_large_err,
    reason = "a run has one error, which says all of how it was made"
)]

mod assembly;
pub mod blocks;
pub mod connections;
pub mod disks;
pub mod explore;
pub mod handoff;
mod lending;
pub mod oracle;
mod plaintext;
mod session;
pub mod storage;
mod world;

pub use lending::Lending;
pub use plaintext::{Leak, Plaintext};
pub use session::{Identity, SERVER_NAME, Suite};
pub use world::{Cycles, Fate, Fates, NodeConfig, World, WorldConfig};
