//! Patterns in what sockets receive (Autonomous NIC offloads §7): the NIC searches, plain streams and the content of TLS records, and
//! software searches only what the NIC could not.
//!
//! A set of patterns is loaded once ([`Stack::load_patterns`]) and then searched for in as many sockets as one likes
//! ([`Stack::start_scan`]). Whatever is read of such a socket has been searched, by one of the two; what was found is told by
//! [`Stack::take_match`], behind the read that has given its last byte.

mod scan;
mod sets;

use std::sync::Arc;

use l5p::pattern::Parameters;
use l5p::{HostEvent, Layers, Listed};

pub use l5p::pattern::{LineError, Match, Patterns, PatternsError, TABLES};
pub use sets::PatternSet;

pub(crate) use scan::{Scan, Target};
pub(crate) use sets::PatternSets;

use crate::layer5::Noted;
use crate::stack::{Core, Stack};
use crate::{SocketError, SocketId};

impl Stack {
    /// Makes a set of patterns known, to the NIC too if it takes it: one text of at most 64 KiB. Sockets that are searched before it has taken
    /// the set, and all of them if it does not, are searched by software.
    pub fn load_patterns(&mut self, patterns: Arc<Patterns>) -> PatternSet {
        let set = self.core.pattern_sets.add(patterns);
        self.core.ask_to_load(&set);
        set
    }

    /// Whether the NIC has taken a set of patterns; `None` until that is known.
    pub fn has_loaded(&self, set: &PatternSet) -> Option<bool> {
        self.core.pattern_sets.is_loaded(set)
    }

    /// Gives a set up. Sockets that are searched for it still are.
    pub fn unload_patterns(&mut self, set: PatternSet) {
        if self.core.pattern_sets.remove(&set) {
            self.core.driver.unload(set.resource);
        }
    }

    /// From now on what is read of this socket is searched for the patterns of a set, from the next byte on. With `by_nic`, the NIC searches what
    /// it can.
    ///
    /// # Errors
    /// [`NotConnected`](SocketError::NotConnected) before the connection, or its TLS session, is there. [`Unsupported`](SocketError::Unsupported)
    /// for a socket that carries PDUs or is searched already. [`NotFound`](SocketError::NotFound), [`Spliced`](SocketError::Spliced).
    pub fn start_scan(
        &mut self,
        id: SocketId,
        set: &PatternSet,
        by_nic: bool,
    ) -> Result<(), SocketError> {
        let now = self.core.last_poll;
        let socket = self.owned(id)?;
        if socket.pdus.is_some() || socket.noted.is_some() {
            return Err(SocketError::Unsupported(
                "the socket carries PDUs, or is searched for patterns already",
            ));
        }
        if socket.is_handshaking() || !socket.tcp.state().is_synchronized() {
            return Err(SocketError::NotConnected);
        }
        let is_loaded = self.core.pattern_sets.is_loaded(set) == Some(true);
        let layers = (by_nic && is_loaded).then(|| {
            Layers::of(&Parameters {
                set: set.resource,
                fingerprint: set.patterns.fingerprint(),
            })
        });
        let Some(socket) = self.sockets.get_mut(id) else {
            return Err(SocketError::NotFound);
        };
        let mut scan = Box::new(Scan::new(
            Arc::clone(&set.patterns),
            socket.stream.highest_end(),
        ));
        if let Some(layers) = layers {
            socket.begin_content(now, id, layers, &mut self.core, &mut *scan);
            if scan.context.is_none() && socket.tls.session().is_none() {
                let counters = &mut self.core.counters.protocols;
                counters.add(Parameters::ID, HostEvent::ContextsRefused, 1);
            }
        }
        socket.noted = Some(Noted::Scan(scan));
        Ok(())
    }

    /// The next match in what was read of a socket, in the order of their ends.
    pub fn take_match(&mut self, id: SocketId) -> Option<Match> {
        let noted = self.sockets.get_mut(id)?.noted.as_mut();
        noted?.scan_mut()?.take_match()
    }
}

impl Core {
    /// The NIC has none of the sets any more.
    pub(crate) fn reload_pattern_sets(&mut self) {
        for set in self.pattern_sets.forgotten() {
            self.ask_to_load(&set);
        }
    }

    fn ask_to_load(&mut self, set: &PatternSet) {
        let text = set.patterns.source().as_bytes();
        let buffer = match u32::try_from(text.len()) {
            Ok(len) if len <= l5p::MAX_RESOURCE => self.driver.arena().allocate(len),
            _ => None,
        };
        match buffer {
            Some(mut buffer) => {
                buffer.truncate(text.len() as u32);
                buffer.copy_from_slice(text);
                self.driver.load(set.resource, Parameters::ID, buffer);
            }
            None => self.pattern_sets.told(set.resource, false),
        }
    }
}
