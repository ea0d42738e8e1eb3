//! A client and a server that exchange requests and responses, connection after connection.

mod client;
mod messages;
mod secure;
mod server;

use std::time::Instant;

use host::Stack;

use super::turn::Talk;

pub use client::Client;
pub use messages::Messages;
pub use server::Server;

/// A client and a server on the same stack, with somebody in between on another.
pub struct Ends {
    /// Opens connections to whoever is in between.
    pub client: Client,
    /// Is connected to by whoever is in between.
    pub server: Server,
    /// What they say.
    pub messages: Messages,
}

impl Ends {
    /// Does what the events of their stack ask for.
    ///
    /// # Errors
    /// When a connection fails.
    pub fn run(&mut self, now: Instant, stack: &mut Stack) -> anyhow::Result<()> {
        let mut talk = Talk {
            now,
            stack,
            messages: &self.messages,
        };
        while let Some(event) = talk.stack.poll_event() {
            if self.client.is_about(&event) {
                self.client.handle(&mut talk, &event)?;
            } else {
                self.server.handle(&mut talk, &event)?;
            }
        }
        Ok(())
    }

    /// Whether every byte until now was the right one.
    pub fn verified(&self) -> bool {
        self.client.verified() && self.server.verified()
    }
}
