//! Decompression in the list of protocols.

use super::NIC_WINDOW;
use super::engine::Engine;
use crate::protocols::counter_names;
use crate::{CounterName, Direction, HostEvent, Protocol, Resource, ResultRing};

/// Bytes beside a window that a decoder takes: its tables, and what it holds of a block.
const DECODER: usize = 512 << 10;

/// Bytes of the shortest buffer: what is made of a packet is not cut into more pieces than that.
const LEAST_BUFFER: u32 = 4096;

/// Where the NIC is to put decoded content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// The buffers, which the host maps.
    pub ring: ResultRing,
}

impl crate::Parameters for Parameters {
    const ENCODED_LEN: usize = 8;

    fn encode(&self, bytes: &mut [u8]) {
        bytes[..4].copy_from_slice(&self.ring.buffer_len.to_le_bytes());
        bytes[4..8].copy_from_slice(&u32::from(self.ring.buffers).to_le_bytes());
    }

    fn decode(bytes: &[u8]) -> Option<Parameters> {
        let (buffer_len, rest) = bytes.split_first_chunk()?;
        let (buffers, _) = rest.split_first_chunk()?;
        let ring = ResultRing {
            buffer_len: u32::from_le_bytes(*buffer_len),
            buffers: u16::try_from(u32::from_le_bytes(*buffers)).ok()?,
        };
        let is_good = ring.buffer_len >= LEAST_BUFFER && ring.buffers > 0;
        is_good.then_some(Parameters { ring })
    }

    fn tags(&self) -> u16 {
        self.ring.buffers
    }
}

impl Protocol for Engine {
    type Parameters = Parameters;
    const NAME: &'static str = "http";
    const REPLACES: bool = false;
    const CHECK_LEN: u32 = 0;
    const MEMORY: usize = DECODER + (1 << NIC_WINDOW);
    const COUNTERS: &'static [CounterName] = COUNTERS;
    const HOST_COUNTERS: &'static [CounterName<HostEvent>] = HOST_COUNTERS;

    fn create(
        parameters: &Parameters,
        direction: Direction,
        _resource: Option<&Resource>,
    ) -> Option<Engine> {
        Some(Engine::new(parameters.ring, direction))
    }

    fn needs_memory(&self) -> bool {
        self.stream.is_decoding()
    }
}

const COUNTERS: &[CounterName] = counter_names! {
    Event:
    RxContexts: "rx_http_ctx", "Contexts that decode a response created.";
    RxContextsRefused: "rx_http_ctx_refused", "Contexts that decode a response refused.";
    RxContextsEnded: "rx_http_del", "Contexts that decode a response destroyed.";
    RxNotes: "rx_http_notes", "Notes on how far responses were decoded given to the host.";
    RxResultBytes: "rx_http_decoded_bytes", "Bytes of decoded content written into buffers.";
    RxResultsLost: "rx_http_lost", "Responses given up because no buffer was mapped.";
};

const HOST_COUNTERS: &[CounterName<HostEvent>] = counter_names! {
    HostEvent:
    ContextsRefused: "HttpContextsRefused", "Responses that the NIC could not decode.";
    RxBytesByNic: "HttpBytesByNic", "Bytes of decoded content that the NIC has made.";
    RxBytesBySoftware: "HttpBytesBySoftware", "Bytes of decoded content that software has made.";
    RxFallbacks: "HttpFallbacks", "Responses that software went on with from their beginning.";
};
