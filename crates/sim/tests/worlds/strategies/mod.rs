//! What the property tests draw: links, connections, commands.

pub mod commands;
pub mod links;
pub mod lives;
pub mod scenarios;
pub mod secured;
