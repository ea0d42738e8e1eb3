//! A client on the stack of node 1.

use std::ops::{Deref, DerefMut};
use std::time::Duration;

use bytes::Bytes;
use host::{SocketError, SocketId};

use crate::http2::client::Client;
use crate::serve::tests::Rig;

/// A client with one connection.
pub(super) struct Browser {
    id: SocketId,
    http2: Client,
    /// What the socket has not taken.
    unsent: Vec<u8>,
}

impl Browser {
    /// One whose handshake with the server is done, and whose windows are so large.
    pub(super) fn open(rig: &mut Rig, window: u32) -> Browser {
        let mut browser = Browser {
            id: super::secured(rig),
            http2: Client::new(window),
            unsent: Vec::new(),
        };
        browser.run(rig, 1);
        browser
    }

    /// Asks for something; gives the number of the fetch.
    pub(super) fn ask(&mut self, method: &str, path: &str, fields: &[(&str, &str)]) -> usize {
        self.http2.ask(method, path, fields, Bytes::new())
    }

    /// Runs the world for so many milliseconds, with this client in it.
    pub(super) fn run(&mut self, rig: &mut Rig, milliseconds: u64) {
        for _ in 0..milliseconds {
            self.poll(rig);
            rig.run_for(Duration::from_millis(1));
        }
        self.poll(rig);
    }

    /// Until all that was asked has come, or failed.
    pub(super) fn finish(&mut self, rig: &mut Rig) {
        for _ in 0..120_000 {
            if self.is_done() {
                return;
            }
            self.run(rig, 1);
        }
        panic!("two minutes have not been enough");
    }

    fn poll(&mut self, rig: &mut Rig) {
        let mut came = Vec::new();
        let is_over = loop {
            match rig.read(self.id, 1 << 20) {
                Ok(bytes) if bytes.is_empty() => break true,
                Ok(bytes) => came.extend(bytes),
                Err(SocketError::WouldBlock) => break false,
                Err(_) => break true,
            }
        };
        self.http2.poll(&came, is_over, &mut self.unsent);
        let now = rig.world.now();
        let written = rig.world.stack(1).write(now, self.id, &self.unsent);
        self.unsent.drain(..written.unwrap_or(0));
    }
}

impl Deref for Browser {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.http2
    }
}

impl DerefMut for Browser {
    fn deref_mut(&mut self) -> &mut Client {
        &mut self.http2
    }
}
