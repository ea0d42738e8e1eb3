//! Patterns in what sockets receive.

use std::sync::Arc;

use l5p::pattern::Parameters;
use l5p::{HostEvent, Layers, Listed};

use crate::pattern::{Match, PatternSet, Patterns, Scan};
use crate::socket::Noted;
use crate::stack::Stack;
use crate::{SocketError, SocketId};

impl Stack {
    /// Makes a set of patterns known, to the NIC too if it takes it: one text of at most 64 KiB. Sockets that are searched before it has taken
    /// the set, and all of them if it does not, are searched by software.
    pub fn load_patterns(&mut self, patterns: Arc<Patterns>) -> PatternSet {
        let set = self.pattern_sets.add(patterns);
        let device = &mut self.offload.transport.device;
        self.pattern_sets.load(&set, device);
        set
    }

    /// Whether the NIC has taken a set of patterns; `None` until that is known.
    pub fn has_loaded(&self, set: &PatternSet) -> Option<bool> {
        self.pattern_sets.is_loaded(set)
    }

    /// Gives a set up. Sockets that are searched for it still are.
    pub fn unload_patterns(&mut self, set: PatternSet) {
        if self.pattern_sets.remove(&set) {
            self.transport().device.driver.unload(set.resource);
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
        let socket = self.owned(id)?;
        if socket.pdus.is_some() || socket.noted.is_some() {
            return Err(SocketError::Unsupported(
                "the socket carries PDUs, or is searched for patterns already",
            ));
        }
        if socket.is_handshaking() || !socket.tcp.state().is_synchronized() {
            return Err(SocketError::NotConnected);
        }
        let is_loaded = self.pattern_sets.is_loaded(set) == Some(true);
        let layers = (by_nic && is_loaded).then(|| {
            Layers::of(&Parameters {
                set: set.resource,
                fingerprint: set.patterns.fingerprint(),
            })
        });
        let transport = &mut self.offload.transport;
        let (now, device) = (transport.last_poll, &mut transport.device);
        let socket = transport.sockets.owned(id)?;
        let mut scan = Box::new(Scan::new(
            Arc::clone(&set.patterns),
            socket.stream.highest_end(),
        ));
        if let Some(layers) = layers {
            socket.begin_content(now, id, layers, device, &mut *scan);
            if scan.context.is_none() && socket.tls.session().is_none() {
                let counters = &mut device.counters.protocols;
                counters.add(Parameters::ID, HostEvent::ContextsRefused, 1);
            }
        }
        socket.noted = Some(Noted::Scan(scan));
        Ok(())
    }

    /// The next match in what was read of a socket, in the order of their ends.
    pub fn take_match(&mut self, id: SocketId) -> Option<Match> {
        let noted = self.transport().sockets.get_mut(id)?.noted.as_mut();
        noted?.scan_mut()?.take_match()
    }
}
