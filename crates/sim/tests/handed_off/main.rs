//! Connections that hosts hand off to their NICs and take back (Connection handoff policies), at random points and on random links: the same bytes
//! and the same ends as when the hosts run them all the time.

mod blocks;
#[path = "../commands/mod.rs"]
mod commands;
mod lending;
#[path = "../links/mod.rs"]
mod links;
#[path = "../lives/mod.rs"]
mod lives;
mod plain;
mod resets;
#[path = "../scenarios/mod.rs"]
mod scenarios;
#[path = "../secured/mod.rs"]
mod secured;
mod tls;
