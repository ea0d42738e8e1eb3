//! A receive context: the recovery state of one flow, and what the flow table finds it by.

use l5p::tls::{CryptoInfo, Direction, Engine};

use super::recovery::Recovery;
use crate::ring::CreateContext;

/// State of the offload of one flow's receive direction.
#[derive(Debug)]
pub(crate) struct ReceiveContext {
    /// The lower half of the flow's hash, by which it is taken out of the flow table again.
    pub(super) hash: u32,
    pub(super) recovery: Recovery<Engine>,
}

impl ReceiveContext {
    pub(super) fn new(command: &CreateContext, crypto: &CryptoInfo, hash: u64) -> Self {
        let engine = Engine::new(crypto, Direction::Receive);
        Self {
            hash: hash as u32,
            recovery: Recovery::new(engine, command.tcpsn, crypto.sequence),
        }
    }
}
