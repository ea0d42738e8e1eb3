//! Connections that hosts hand off to their NICs and take back (Connection handoff policies), at random points and on random links: the same bytes
//! and the same ends as when the hosts run them all the time.

mod blocks;
mod lending;
mod plain;
mod resets;
mod tls;
