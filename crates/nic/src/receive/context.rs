//! Receive contexts: the recovery state of one flow, and what the flow table finds it by.

use l5p::Direction;
use l5p::nvme;
use l5p::tls::{self, CryptoInfo};

use super::placing::Placer;
use super::recovery::Recovery;
use super::stacked::Outer;
use crate::ring::CreateContext;

/// State of the offload of one flow's receive direction: TLS.
#[derive(Debug)]
pub(crate) struct ReceiveContext {
    /// The lower half of the flow's hash, by which it is taken out of the flow table again.
    pub(super) hash: u32,
    pub(super) recovery: Recovery<tls::Engine>,
}

/// State of the offload of one flow's receive direction: NVMe/TCP, whose data are placed, plain or inside TLS.
#[derive(Debug)]
pub(crate) struct PlacingContext {
    /// As for TLS.
    pub(super) hash: u32,
    /// Tags that count against the function's quota.
    pub(super) tags: u16,
    /// PDUs have digests of any kind.
    pub(super) digests: bool,
    pub(super) pdus: Recovery<nvme::Engine, Placer>,
    /// The TLS around it.
    pub(super) outer: Option<Outer>,
}

impl ReceiveContext {
    pub(super) fn new(command: &CreateContext, crypto: &CryptoInfo, hash: u64) -> Self {
        let engine = tls::Engine::new(crypto, Direction::Receive);
        Self {
            hash: hash as u32,
            recovery: Recovery::new(engine, (), command.tcpsn, crypto.sequence),
        }
    }
}

impl PlacingContext {
    pub(super) fn new(
        command: &CreateContext,
        nvme: &nvme::Parameters,
        tls: Option<&CryptoInfo>,
        hash: u64,
    ) -> Self {
        let (outer, first) = match tls {
            Some(tls) => {
                let (outer, first) = Outer::new(tls, command.tcpsn);
                (Some(outer), first)
            }
            None => (None, command.tcpsn),
        };
        let engine = nvme::Engine::new(nvme, Direction::Receive);
        Self {
            hash: hash as u32,
            tags: nvme.commands,
            digests: nvme.header_digest || nvme.data_digest,
            pdus: Recovery::new(engine, Placer::new(nvme.commands), first, 0),
            outer,
        }
    }
}
