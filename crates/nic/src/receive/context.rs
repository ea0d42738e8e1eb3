//! A receive context: the recovery state of one flow, and what the flow table knows it by.

use l5p::tls::{Direction, Engine};
use wire::{FlowKey, SeqNum};

use super::recovery::{Order, Recovery};
use crate::ring::CreateContext;

/// State of the offload of one flow's receive direction.
#[derive(Debug)]
pub(crate) struct ReceiveContext {
    pub(super) flow: FlowKey,
    /// The flow's hash, by which it is taken out of the flow table again.
    pub(super) hash: u64,
    pub(super) recovery: Recovery<Engine>,
}

impl ReceiveContext {
    pub(super) fn new(command: &CreateContext, hash: u64, order: Order) -> Self {
        let engine = Engine::new(&command.crypto, Direction::Receive);
        let tcpsn: SeqNum = command.tcpsn;
        Self {
            flow: command.flow,
            hash,
            recovery: Recovery::new(engine, tcpsn, command.crypto.sequence, order),
        }
    }
}
