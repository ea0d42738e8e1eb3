//! Libraries whose connections the NIC makes and opens records for.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Instant;

use attachment::{Answer, Connection, ConnectionError, Errno, Order, Registry, Resolved};
use wire::SeqNum;

use super::hosts::Host;

/// Libraries at a time, and requests of one of them before it is the next one's turn.
const MOST: (usize, usize) = (4096, 32);

/// The attached libraries.
#[derive(Debug, Default)]
pub struct Attachments {
    registry: Registry,
    connections: Vec<Connection>,
}

impl Attachments {
    /// A connection that was told that it is an attachment.
    pub fn add(&mut self, stream: UnixStream) {
        if self.connections.len() < MOST.0 {
            self.connections
                .push(Connection::new(OwnedFd::from(stream)));
        }
    }

    /// What to wait on for reading.
    pub fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.connections.iter().map(Connection::as_fd)
    }

    /// Does what libraries ask for. One that has gone, or makes no sense, is let go of; its connections stay.
    pub fn poll(&mut self, now: Instant, hosts: &mut [Host]) {
        let registry = &mut self.registry;
        self.connections
            .retain_mut(|connection| match serve(registry, connection, now, hosts) {
                Ok(()) => true,
                Err(ConnectionError::Closed) => false,
                Err(error) => {
                    tracing::warn!("an attached library is let go of: {error}");
                    false
                }
            });
    }
}

fn serve(
    registry: &mut Registry,
    connection: &mut Connection,
    now: Instant,
    hosts: &mut [Host],
) -> Result<(), ConnectionError> {
    for _ in 0..MOST.1 {
        let Some(incoming) = connection.poll_request()? else {
            break;
        };
        let answer = match registry.resolve(connection, incoming) {
            Ok(Resolved::Attached(answer)) => answer,
            Ok(Resolved::Order(order)) => carry_out(now, &order, hosts),
            Err(refusal) => {
                tracing::warn!("a request of an attached library is refused: {refusal}");
                Answer::from(refusal)
            }
        };
        connection.answer(answer)?;
    }
    Ok(())
}

/// Has the host do it behind whose interface the connection's peer is.
fn carry_out(now: Instant, order: &Order, hosts: &mut [Host]) -> Answer {
    for host in hosts {
        let answer = host.function_mut().handle_order(now, order);
        if answer.result != Err(Errno::NODEV) {
            return answer;
        }
    }
    if let Order::Release { slot } = order {
        // No host has a connection with it.
        slot.slot().free(slot.generation());
        return Answer::at(SeqNum(0));
    }
    Answer::refused(Errno::NODEV)
}
