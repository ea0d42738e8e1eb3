//! What the control process passes on: what libraries ask for with their connections, and who wants to see counters.

use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Instant;

use anyhow::Context;
use attachment::{
    Admitted, Answer, Closer, Errno, Limits, Registry, SlotRequest, SocketFacts, Tenant,
};
use l5p::crypto::wipe;
use rustix::net::{RecvFlags, SendFlags};
use wire::SeqNum;

use super::channel::{self, ConnectionId, Header, Kind, MOST_BYTES, Message};
use super::hosts::Host;
use crate::attach::available_memory;

/// Messages that are done before frames are moved again.
const MOST_MESSAGES: usize = 8;
/// Connections that a control process may have.
const MOST_TENANTS: usize = 4096;

/// What the control process asks that does not concern libraries.
pub enum Question<'a> {
    /// The counters, as JSON.
    Counters,
    /// That a function fail, as this request says; the answer is why not.
    Fault(&'a [u8]),
}

/// The libraries that the control process has connections with.
#[derive(Debug)]
pub struct Attachments {
    registry: Registry,
    channel: Option<OwnedFd>,
    /// By their connections.
    tenants: HashMap<ConnectionId, Tenant>,
    buffer: Box<[u8]>,
}

/// What all libraries may attach. Linux counts a page of theirs as this process's when data that the NIC receives is the first thing in it, so memory for data
/// is half of the machine's, or of this process's control group's, at most.
pub fn limits() -> Limits {
    let most = Limits::default();
    Limits {
        memory: most.memory.min(available_memory() / 2),
        ..most
    }
}

impl Default for Attachments {
    /// Without a control process.
    fn default() -> Attachments {
        Attachments {
            registry: Registry::default(),
            channel: None,
            tenants: HashMap::new(),
            buffer: vec![0; MOST_BYTES].into(),
        }
    }
}

impl Attachments {
    /// Starts the threads that unmap and close what libraries have shared, of which there may be so much.
    ///
    /// # Errors
    /// When there can be none.
    pub fn start(&mut self, limits: Limits) -> anyhow::Result<()> {
        let closer = Closer::start().context("can't start a thread")?;
        self.registry = Registry::new(limits, Some(closer));
        Ok(())
    }

    /// There is a new control process, with other connections.
    pub fn connect(&mut self, channel: OwnedFd) {
        self.disconnect();
        self.channel = Some(channel);
    }

    /// What to wait on for reading.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.channel.as_ref().map(AsFd::as_fd)
    }

    /// Does what is asked for; `tell` answers what does not concern libraries, if it can. A control process that makes no sense, or does not read, is let go of:
    /// libraries come back with the next one.
    pub fn poll(
        &mut self,
        now: Instant,
        hosts: &mut [Host],
        mut tell: impl FnMut(&Question<'_>, &[Host]) -> Option<Vec<u8>>,
    ) {
        for _ in 0..MOST_MESSAGES {
            match self.serve(now, hosts, &mut tell) {
                Ok(()) => {}
                Err(Errno::AGAIN) => break,
                Err(error) => {
                    if error != Errno::PIPE {
                        tracing::warn!(
                            "the control process does not keep up: {error}; the next one starts"
                        );
                    }
                    return self.disconnect();
                }
            }
        }
    }

    fn disconnect(&mut self) {
        self.channel = None;
        self.tenants.clear();
    }

    fn serve(
        &mut self,
        now: Instant,
        hosts: &mut [Host],
        mut tell: impl FnMut(&Question<'_>, &[Host]) -> Option<Vec<u8>>,
    ) -> Result<(), Errno> {
        let Attachments {
            registry,
            channel,
            tenants,
            buffer,
        } = self;
        let Some(channel) = channel else {
            return Err(Errno::AGAIN);
        };
        let message = channel::receive(channel.as_fd(), buffer, RecvFlags::DONTWAIT)?;
        let header = message.header;
        let reply = |kind, payload: &[u8]| {
            let header = Header { kind, ..header };
            let sent = channel::send(channel.as_fd(), header, payload, None, SendFlags::DONTWAIT);
            // That it has no room means that it does not read, not that there is nothing to do.
            sent.map_err(|error| match error {
                Errno::AGAIN => Errno::TIMEDOUT,
                other => other,
            })
        };
        match header.kind {
            Kind::Stat => match tell(&Question::Counters, hosts) {
                Some(counters) => reply(Kind::Counters, &counters),
                None => Ok(()),
            },
            Kind::Fault => match tell(&Question::Fault(message.payload), hosts) {
                Some(failure) => reply(Kind::Failed, &failure),
                None => Ok(()),
            },
            Kind::Closed => {
                if let Some(tenant) = tenants.remove(&header.connection) {
                    check_owner(&tenant, header)?;
                }
                Ok(())
            }
            Kind::Request => {
                if tenants.len() >= MOST_TENANTS && !tenants.contains_key(&header.connection) {
                    return Err(Errno::MFILE);
                }
                let tenant = tenants.entry(header.connection);
                let tenant = tenant.or_insert_with(|| Tenant::new(header.uid));
                check_owner(tenant, header)?;
                let answer = answer(registry, tenant, message, now, hosts)?;
                reply(Kind::Answer, &answer.to_bytes())
            }
            Kind::Counters | Kind::Answer | Kind::Failed => Err(Errno::BADMSG),
        }
    }
}

/// That a message is of the user who opened its connection.
///
/// # Errors
/// `EBADMSG` if it is another one's: a control process that confuses connections is let go of, before one user has what another one has attached.
fn check_owner(tenant: &Tenant, header: Header) -> Result<(), Errno> {
    match tenant.uid() == header.uid {
        true => Ok(()),
        false => Err(Errno::BADMSG),
    }
}

/// Has it done.
fn answer(
    registry: &mut Registry,
    tenant: &mut Tenant,
    message: Message<'_>,
    now: Instant,
    hosts: &mut [Host],
) -> Result<Answer, Errno> {
    let bytes = message.payload.first_chunk().ok_or(Errno::BADMSG)?;
    let admitted = Admitted::from_bytes(bytes, message.descriptor);
    wipe(message.payload);
    // The control process has looked at it already.
    let admitted = admitted.map_err(|_| Errno::BADMSG)?;
    Ok(registry.answer(tenant, admitted, |order| carry_out(now, &order, hosts)))
}

/// Has the host do it behind whose interface the connection's peer is, or that knows the slot.
fn carry_out(now: Instant, order: &SlotRequest, hosts: &mut [Host]) -> Answer {
    let interface = facts(order).map(|facts| facts.interface);
    for host in hosts {
        if interface.is_some_and(|interface| interface != host.interface()) {
            continue;
        }
        let answer = host.function_mut().handle_slot_request(now, order);
        if answer.result != Err(Errno::NODEV) {
            return answer;
        }
    }
    if let SlotRequest::Release { slot, .. } = order {
        // No host has a connection with it.
        slot.slot().free(slot.generation());
        return Answer::at(SeqNum(0));
    }
    Answer::refused(Errno::NODEV)
}

/// What is known of the socket that an order is about.
fn facts(order: &SlotRequest) -> Option<&SocketFacts> {
    match order {
        SlotRequest::SetKeys { socket, .. }
        | SlotRequest::Stop { socket, .. }
        | SlotRequest::Pdus { socket, .. } => Some(socket),
        SlotRequest::Release { .. } | SlotRequest::Settle { .. } => None,
    }
}

#[cfg(test)]
mod tests;
