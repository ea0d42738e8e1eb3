//! A transmit context (Autonomous NIC offloads §4.1): where in the stream the offload is, and the engines' state there.

pub(crate) mod encrypt;
mod layers;
mod nested;
pub(crate) mod recover;
pub(crate) mod scratch;
mod seek;
pub(crate) mod source;

use l5p::{Digest, Event};
use wire::SeqNum;

use crate::counters::Counters;
use crate::resources::Resources;
use crate::ring::{CreateContext, ErrorCode};

use layers::TransmitLayers;

const _: () = assert!(size_of::<TransmitContext>() <= 512);

/// State of the offload of one flow's transmit direction.
#[derive(Debug)]
pub(crate) struct TransmitContext {
    /// The lower half of its flow's hash, by which packets are held against it.
    pub(crate) flow_hash: u32,
    /// What the next packet must begin with.
    pub(crate) tcpsn: SeqNum,
    /// End of everything that was ever sent through this context.
    pub(crate) sent: SeqNum,
    pub(crate) layers: Box<dyn TransmitLayers>,
    pub(crate) state: State,
    /// Some of what was sent encrypted came from a source that may change.
    pub(crate) mutable: bool,
    /// The message that was interrupted by a recovery when it was being sent for the first time.
    pub(crate) frontier: Option<Frontier>,
}

/// Where the next packet's bytes come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// From host memory, through the engine.
    InSequence,
    /// Up to `end` from the scratch memory of a queue, where the verified bytes are; from there on
    /// through the engine, which is at `end` already.
    Replay(Replay),
    /// From nowhere: something went wrong in the middle of a packet, or a recovery failed. Only a recovery
    /// helps.
    Lost,
}

/// Names a recovery; no other of the NIC has the same. In halves, so that a context packs tightly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RecoveryId([u32; 2]);

impl RecoveryId {
    /// The recovery of this number.
    pub(crate) fn new(number: u64) -> RecoveryId {
        RecoveryId([number as u32, (number >> 32) as u32])
    }
}

/// Verified bytes in a scratch memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Replay {
    /// Names the recovery that put them there.
    pub(crate) recovery: RecoveryId,
    /// Where they end.
    pub(crate) end: SeqNum,
}

/// How far a message had been sent when it was interrupted, and the digest of that part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Frontier {
    pub(crate) start: SeqNum,
    pub(crate) offset: u32,
    pub(crate) digest: Digest,
}

impl TransmitContext {
    /// # Errors
    /// When the command's protocols can't be run, or not so inside each other.
    pub(crate) fn new(
        command: &CreateContext,
        flow_hash: u64,
        resources: &Resources,
    ) -> Result<TransmitContext, ErrorCode> {
        Ok(TransmitContext {
            flow_hash: flow_hash as u32,
            tcpsn: command.tcpsn,
            sent: command.tcpsn,
            layers: layers::create(&command.layers, resources)?,
            state: State::InSequence,
            mutable: false,
            frontier: None,
        })
    }

    /// Counts something of every layer.
    pub(crate) fn count(&self, counters: &mut Counters, event: Event, count: u64) {
        for id in self.layers.ids() {
            counters.l5.count(*id, event, count);
        }
    }

    /// Counts something of the outermost layer.
    pub(crate) fn count_outermost(&self, counters: &mut Counters, event: Event, count: u64) {
        counters.l5.count(self.layers.ids()[0], event, count);
    }

    /// Whether packets of the flow with this hash are this context's.
    pub(crate) fn is_for(&self, flow_hash: u64) -> bool {
        self.flow_hash == flow_hash as u32
    }

    /// Whether a packet that begins at `tcpsn` is the next one.
    pub(crate) fn is_at(&self, tcpsn: SeqNum) -> bool {
        self.state != State::Lost && self.tcpsn == tcpsn
    }

    /// Bytes of the current message that can be transformed before their packets are due: no header is among them that may be wrong, and no
    /// byte that must be verified.
    pub(crate) fn rest_of_message(&self, mutable: bool) -> u32 {
        let is_repeated = self.tcpsn.before(self.sent);
        if self.state != State::InSequence || !self.layers.replaces() || mutable && is_repeated {
            return 0;
        }
        let position = self.layers.position();
        position.len.map_or(0, |_| position.left)
    }

    /// Keeps the digest of a message whose first transmission is interrupted here.
    pub(crate) fn note_frontier(&mut self) {
        let offset = self.layers.position().offset;
        let interrupted = self.mutable
            && self.state == State::InSequence
            && self.tcpsn == self.sent
            && offset != 0;
        if interrupted {
            self.frontier = Some(Frontier {
                start: self.tcpsn - offset,
                offset,
                digest: self.layers.digest(),
            });
        }
    }
}
