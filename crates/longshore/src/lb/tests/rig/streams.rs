//! A client of HTTP/2 on one of the rig's connections.

use std::ops::{Deref, DerefMut};
use std::time::Duration;

use super::{Rig, secure};
use crate::http2::client::Client;

/// A client with many streams.
pub struct Streams {
    /// Its number among the rig's.
    pub client: usize,
    http2: Client,
}

impl Streams {
    /// A client whose windows are so large.
    pub fn new(rig: &mut Rig, window: u32) -> Streams {
        let client = rig.client_of(secure::client_of(b"h2"), "");
        Streams {
            client,
            http2: Client::new(window),
        }
    }

    /// Runs until all that was asked for has come or failed.
    pub fn finish(&mut self, rig: &mut Rig) {
        for _ in 0..200_000 {
            if self.is_done() {
                return;
            }
            self.run(rig, Duration::from_millis(1));
        }
        panic!("it does not come to an end");
    }

    /// Runs the world for so long, with this client in it.
    pub fn run(&mut self, rig: &mut Rig, time: Duration) {
        let end = rig.world.now() + time;
        self.poll(rig);
        while rig.world.now() < end {
            rig.run_for(Duration::from_millis(1));
            self.poll(rig);
        }
    }

    fn poll(&mut self, rig: &mut Rig) {
        let peer = &mut rig.clients[self.client];
        let came = std::mem::take(&mut peer.input);
        let is_over = peer.is_over();
        self.http2.poll(&came, is_over, &mut peer.out);
    }
}

impl Deref for Streams {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.http2
    }
}

impl DerefMut for Streams {
    fn deref_mut(&mut self) -> &mut Client {
        &mut self.http2
    }
}
