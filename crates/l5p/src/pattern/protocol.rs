//! Pattern matching in the list of protocols.

use std::sync::Arc;

use super::engine::Engine;
use super::patterns::Patterns;
use crate::protocols::counter_names;
use crate::{CounterName, Direction, HostEvent, Protocol, Resource, ResourceId};

/// What the NIC is to look for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// The set, which the NIC has made of the text.
    pub set: ResourceId,
    /// [`Patterns::fingerprint`]: whether both sides have made the same tables.
    pub fingerprint: u64,
}

impl crate::Parameters for Parameters {
    const ENCODED_LEN: usize = 16;

    fn encode(&self, bytes: &mut [u8]) {
        bytes[..8].copy_from_slice(&u64::from(self.set.0).to_le_bytes());
        bytes[8..16].copy_from_slice(&self.fingerprint.to_le_bytes());
    }

    fn decode(bytes: &[u8]) -> Option<Parameters> {
        let (set, rest) = bytes.split_first_chunk()?;
        let (fingerprint, _) = rest.split_first_chunk()?;
        Some(Parameters {
            set: ResourceId(u16::try_from(u64::from_le_bytes(*set)).ok()?),
            fingerprint: u64::from_le_bytes(*fingerprint),
        })
    }

    fn resource(&self) -> Option<ResourceId> {
        Some(self.set)
    }
}

impl Protocol for Engine {
    type Parameters = Parameters;
    const NAME: &'static str = "pattern";
    const REPLACES: bool = false;
    const CHECK_LEN: u32 = 0;
    const COUNTERS: &'static [CounterName] = COUNTERS;
    const HOST_COUNTERS: &'static [CounterName<HostEvent>] = HOST_COUNTERS;

    fn make_resource(bytes: &[u8], limit: usize) -> Option<Resource> {
        let text = std::str::from_utf8(bytes).ok()?;
        let patterns = Patterns::parse(text, limit).ok()?;
        let len = patterns.tables_len();
        Some(Resource::new(Arc::new(patterns), len))
    }

    fn create(
        parameters: &Parameters,
        direction: Direction,
        resource: Option<&Resource>,
    ) -> Option<Engine> {
        let patterns: Arc<Patterns> = resource?.get()?;
        let is_same = patterns.fingerprint() == parameters.fingerprint;
        is_same.then(|| Engine::new(patterns, direction))
    }
}

const COUNTERS: &[CounterName] = counter_names! {
    Event:
    ResourcesLoaded: "pattern_sets", "Sets of patterns made into tables.";
    ResourcesRefused: "pattern_sets_refused", "Sets of patterns that were wrong or too large.";
    RxContexts: "rx_pattern_ctx", "Contexts that search for patterns created.";
    RxContextsRefused: "rx_pattern_ctx_refused", "Contexts that search for patterns refused.";
    RxContextsEnded: "rx_pattern_del", "Contexts that search for patterns destroyed.";
    RxPackets: "rx_pattern_packets", "Packets searched for patterns.";
    RxBytes: "rx_pattern_bytes", "Payload bytes of packets searched for patterns.";
    RxNotes: "rx_pattern_notes", "Notes on matches and states given to the host.";
    RxLeaps: "rx_pattern_resumed", "Gaps behind which the search went on with the next window.";
    RxSearches: "rx_pattern_resync_req_start", "Times that the search had lost its place in the stream.";
    RxRequests: "rx_pattern_resync_req_end", "Questions to the host where the search may go on.";
};

const HOST_COUNTERS: &[CounterName<HostEvent>] = counter_names! {
    HostEvent:
    ContextsRefused: "PatternContextsRefused", "Connections that the NIC could not search for patterns.";
    RxBytesByNic: "PatternBytesByNic", "Bytes that the NIC has searched for patterns.";
    RxBytesBySoftware: "PatternBytesBySoftware", "Bytes that software has searched for patterns.";
    RxFound: "PatternMatches", "Patterns found, at each place where they end.";
    RxRequests: "PatternRxRequests", "Questions of the NIC where its search may go on.";
};
