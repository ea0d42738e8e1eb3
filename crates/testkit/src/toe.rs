//! Connections that a NIC runs, or is about to run.

use std::time::Instant;

use nic::ring::toe::{TCB_IMAGE_BYTES, TcbImage, ToeCommand, ToeId, ToeOffer};
use nic::ring::{SendDescriptor, Slice};
use tcp::{Config, Connection};
use wire::{FlowKey, SeqNum};

use crate::bare::{BareHost, MEMORY};
use crate::fixtures::PEER;

/// The connection with this index, on its first handoff.
pub fn toe(index: u32) -> ToeId {
    ToeId {
        index,
        generation: 1,
    }
}

/// Both ends of a connection that has just been established: the host's, which sends on `flow` from `isn` on, and its peer's, which
/// connected from `irs` on.
pub fn established(
    now: Instant,
    config: &Config,
    flow: &FlowKey,
    isn: SeqNum,
    irs: SeqNum,
) -> [Connection; 2] {
    let mut peer = Connection::connect(now, config, flow.dst.1, flow.src.1, irs);
    let syn = peer.poll_transmit(now).expect("a SYN").header;
    let mut host = Connection::accept(now, config, &syn, isn);
    let syn_ack = host.poll_transmit(now).expect("a SYN-ACK").header;
    peer.handle_segment(now, &syn_ack, 0, 1);
    let ack = peer.poll_transmit(now).expect("an ACK").header;
    host.handle_segment(now, &ack, 0, 1);
    while host.poll_event().is_some() {}
    while peer.poll_event().is_some() {}
    [host, peer]
}

impl BareHost {
    /// Posts a command to a queue.
    pub fn command(&mut self, queue: usize, command: ToeCommand<'_>) {
        let queue = &mut self.queues[queue];
        let posted = queue.commands.post(&SendDescriptor::Toe(command));
        posted.expect("room for a command");
        let _ = queue.publish();
    }

    /// Asks for room for a connection.
    pub fn begin(&mut self, queue: usize, toe: ToeId, flow: FlowKey) {
        self.command(queue, ToeCommand::Begin { toe, flow });
    }

    /// Offers a connection, whose control block goes to the second half of the host's memory; gives its place.
    pub fn offer(&mut self, queue: usize, toe: ToeId, flow: FlowKey, image: &TcbImage) -> Slice {
        let mut bytes = [0; TCB_IMAGE_BYTES];
        image.encode(&mut bytes).expect("few ranges");
        let places = MEMORY / 2 / TCB_IMAGE_BYTES;
        let place = MEMORY / 2 + toe.index as usize % places * TCB_IMAGE_BYTES;
        self.memory.write(place as u64, &bytes);
        let offer = ToeOffer {
            toe,
            flow,
            hop: PEER,
            hop_limit: 64,
            tcb: self.memory.slice(place as u64, TCB_IMAGE_BYTES as u32),
        };
        self.command(queue, ToeCommand::Offer(&offer));
        offer.tcb
    }
}

/// The control block of a connection.
pub fn image(now: Instant, connection: &Connection) -> TcbImage {
    TcbImage {
        tcb: connection.tcb(now).expect("it is established"),
        config: connection.config(),
        cork: connection.is_corked(),
    }
}
