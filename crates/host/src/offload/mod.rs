//! Who owns each connection: the host, or the NIC that opens, finishes, joins or runs it.
//!
//! What comes for a connection, and what is due for one, goes first to its owner. The [`Transport`] runs the connections of the host;
//! those of the NIC are here. A socket's [`Owner`](crate::socket::Owner) says which it is.

mod accel;
mod close;
mod handoff;
mod input;
mod paths;
mod serve;
mod splice;

use std::time::Instant;

use nic::ring::HostFunction;

use crate::deadlines::earliest;
use crate::transport::{Transport, TransportEvent};
use crate::{Holder, ListenOptions, ListenerId, SocketError, SocketId, StackConfig};
use accel::AccelState;
use handoff::HandoffState;

pub(crate) use splice::Splices;

/// Every connection of the stack, and who owns it.
#[derive(Debug)]
pub(crate) struct ConnectionOffload {
    pub transport: Transport,
    /// Connections that the NIC has set up, or finishes.
    pub accel: AccelState,
    /// Connections that the NIC joins.
    pub splices: Splices,
    /// Connections that the NIC runs.
    pub handoff: HandoffState,
}

impl ConnectionOffload {
    pub fn new(now: Instant, config: StackConfig, function: HostFunction) -> Self {
        let transport = Transport::new(now, config, function);
        let (config, driver) = (&transport.config, &transport.device.driver);
        Self {
            accel: AccelState::new(now, config.accel_handshakes),
            splices: Splices::default(),
            handoff: HandoffState::new(&config.handoff, driver.toe_quota()),
            transport,
        }
    }

    /// When there is something to do, if nothing comes before.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let last_poll = self.transport.last_poll;
        earliest([
            self.transport.poll_timeout(),
            self.splices.poll_timeout(),
            self.accel.poll_timeout(last_poll),
            self.handoff.poll_timeout(last_poll),
        ])
    }

    /// Acts on what the transport tells of connections.
    #[inline]
    pub fn handle_transport_events(&mut self) {
        while let Some(event) = self.transport.poll_event() {
            self.handle_transport_event(event);
        }
    }

    #[inline(never)]
    fn handle_transport_event(&mut self, event: TransportEvent) {
        match event {
            TransportEvent::Established(id) => {
                if let Some(socket) = self.transport.sockets.get_mut(id) {
                    let now = self.transport.last_poll;
                    self.handoff.established(now, id, socket);
                }
            }
            TransportEvent::Unlisted { rule, listener } => {
                self.accel.rules.give_back(rule, Some(listener));
            }
            TransportEvent::Removed {
                mut record,
                offloaded,
            } => {
                if let Some(offloaded) = offloaded {
                    let device = &mut self.transport.device;
                    self.handoff
                        .cancel(offloaded.toe, offloaded.phase(), device);
                }
                self.handoff.left(&mut record);
            }
        }
    }

    /// Listens; the NIC may answer.
    ///
    /// # Errors
    /// When the address is not the host's, or in use.
    pub fn listen(
        &mut self,
        address: std::net::SocketAddr,
        options: ListenOptions,
    ) -> Result<ListenerId, SocketError> {
        let id = self.transport.listen(address, options)?;
        self.sync_rules();
        Ok(id)
    }

    /// The next established connection of a listener.
    pub fn accept(&mut self, id: ListenerId) -> Option<SocketId> {
        let (accepted, rule) = self.transport.accept(id)?;
        if let Some(rule) = rule {
            self.accel.rules.give_back(rule, Some(id));
        }
        self.accept_quasi(accepted);
        Some(accepted)
    }

    /// Stops listening; connections not yet accepted are reset.
    ///
    /// # Errors
    /// [`SocketError::NotFound`].
    pub fn close_listener(&mut self, id: ListenerId) -> Result<(), SocketError> {
        let removed = self.transport.listeners.remove(id);
        let listening = removed.ok_or(SocketError::NotFound)?;
        self.sync_rules();
        for (waiting, _) in listening.waiting {
            self.promote(self.transport.last_poll, waiting);
        }
        self.transport.abort_waiting(id);
        Ok(())
    }

    /// Who answers for a listener.
    pub fn listener_holder(&self, id: ListenerId) -> Holder {
        match self.accel.rules.answers_for(id) {
            true => Holder::Nic,
            false => Holder::Host,
        }
    }
}
