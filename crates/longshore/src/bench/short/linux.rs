//! An epoll server on Linux's TCP, with the very same client.

mod epoll;

use std::time::Instant;

use hdrhistogram::Histogram;
use host::{Stack, StackConfig};
use port::tap::Tap;

use super::settings::Settings;
use super::world::stack_config;
use crate::bench::exchange::{Client, Messages};
use crate::bench::tap::{Applications, Measured, Rig, TapHost, Turns, namespace};
use crate::bench::turn::Talk;
use epoll::Server;

const PORT: u16 = 80;

/// The client's host, the TAP and Linux's server.
pub struct ShortRig {
    turns: Turns,
    both: Both,
}

struct Both {
    client: Client,
    server: Server,
    messages: Messages,
}

impl ShortRig {
    /// A client on our side of the TAP, and a server on Linux's.
    ///
    /// # Errors
    /// When the server can't listen.
    pub fn new(settings: &Settings, tap: Tap) -> anyhow::Result<Self> {
        let address = (namespace::LINUX, PORT).into();
        let messages = settings.messages();
        let each = settings.transactions_per_connection;
        let config = StackConfig {
            meter: false,
            ..stack_config(settings)
        };
        Ok(Self {
            turns: Turns::new(tap, config, messages.request_len())?,
            both: Both {
                client: Client::new(address, settings.connections, each, &messages)?,
                server: Server::listen(address, &messages, each)?,
                messages,
            },
        })
    }
}

impl Rig for ShortRig {
    fn round(&mut self, connections: u64) -> anyhow::Result<Measured> {
        self.both.client.ask_for(connections);
        let cycles = self.turns.run(&mut self.both)?;
        Ok(Measured {
            cycles,
            verified: self.both.client.verified() && self.both.server.verified(),
        })
    }

    fn take_latency(&mut self) -> Histogram<u64> {
        let latency = self.both.client.latency().clone();
        self.both.client.latency().reset();
        latency
    }
}

impl Applications for Both {
    fn run_ours(&mut self, now: Instant, stack: &mut Stack) -> anyhow::Result<()> {
        self.client.open(now, stack)?;
        let messages = &self.messages;
        self.client.run(&mut Talk {
            now,
            stack,
            messages,
        })
    }

    fn run_linux(&mut self) -> anyhow::Result<Option<u64>> {
        self.server.run(&self.messages)
    }

    fn wait(&mut self, _host: &TapHost<Tap>) {
        std::hint::spin_loop();
    }

    fn is_done(&self) -> bool {
        self.client.is_done()
    }
}
