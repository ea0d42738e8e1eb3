//! What the device tells tracers that are attached to it ([`probes`]).

use probes::{DropReason, Flow, LossReason, Resumption};
use wire::FlowKey;

use crate::counters::Counters;
use crate::ring::ContextId;
use crate::switch::FunctionId;

/// In place of a function, of packets that are for none.
pub(crate) const NO_FUNCTION: FunctionId = FunctionId(u16::MAX);

/// Counts a packet that is dropped, and tells tracers. The path of packets that are not dropped has a call of this alone.
#[cold]
#[inline(never)]
pub(crate) fn drop_packet(counters: &mut Counters, function: FunctionId, reason: DropReason) {
    let (counter, is_malformed) = match reason {
        DropReason::RxNoFunction => (&mut counters.rx_no_function, false),
        DropReason::RxOutOfBuffer => (&mut counters.rx_out_of_buffer, false),
        DropReason::RxRingFull => (&mut counters.rx_ring_full, false),
        DropReason::RxBadBuffer => (&mut counters.rx_bad_buffer, false),
        DropReason::RxMalformedTruncated => (&mut counters.rx_malformed_truncated, true),
        DropReason::RxMalformedLength => (&mut counters.rx_malformed_length, true),
        DropReason::RxMalformedOption => (&mut counters.rx_malformed_option, true),
        DropReason::RxMalformedValue => (&mut counters.rx_malformed_value, true),
        DropReason::RxFiltered => (&mut counters.rx_filtered, false),
        DropReason::RxFaultDropped => (&mut counters.rx_fault_dropped, false),
        DropReason::RxCsumBad => (&mut counters.rx_csum_bad, false),
        DropReason::TxDropNoContext => (&mut counters.tx_drop_no_context, false),
        DropReason::AccelEgressFull => (&mut counters.accel_egress_full, false),
        DropReason::AccelSynsBacklog => (&mut counters.accel_syns_backlog, false),
        DropReason::AccelSpliceDropped => (&mut counters.accel_splice_dropped, false),
        DropReason::ToeRxQueueFull => (&mut counters.toe_rx_queue_full, false),
    };
    *counter += 1;
    counters.rx_malformed += u64::from(is_malformed);
    probes::packet_drop(&|| probes::PacketDrop {
        function: function.0,
        reason,
    });
}

/// The receive context of a function's, as it is named.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ContextName {
    function: FunctionId,
    context: ContextId,
    /// What is said is of a layer inside of another one.
    is_inside: bool,
}

impl ContextName {
    /// Of its outermost layer.
    pub(crate) fn new(function: FunctionId, context: ContextId) -> ContextName {
        ContextName {
            function,
            context,
            is_inside: false,
        }
    }

    /// For what is said of the layer inside.
    pub(crate) fn inside(self) -> ContextName {
        ContextName {
            is_inside: true,
            ..self
        }
    }

    /// It was made, for what comes by `flow`.
    pub(crate) fn created(self, protocol: l5p::ProtocolId, flow: &FlowKey) {
        probes::rx_context_created(&|| {
            let flow = Flow::new(flow.dst.into(), flow.src.into());
            probes::RxContextCreated {
                function: self.function.0,
                context: self.context.0,
                protocol: protocol.0,
                flow: flow.number,
                local: flow.local,
                remote: flow.remote,
            }
        });
    }

    /// It has ended.
    pub(crate) fn destroyed(self) {
        probes::rx_context_destroyed(&|| probes::RxContextDestroyed {
            function: self.function.0,
            context: self.context.0,
        });
    }

    /// A layer of it has lost where messages begin; `has_failed`: by a message that is not right.
    pub(crate) fn lost(self, protocol: l5p::ProtocolId, has_failed: bool) {
        let reason = match (has_failed, self.is_inside) {
            (true, _) => LossReason::CheckFailed,
            (false, false) => LossReason::HeaderMissing,
            (false, true) => LossReason::ContentMissing,
        };
        probes::offload_lost(&|| probes::OffloadLost {
            function: self.function.0,
            context: self.context.0,
            protocol: protocol.0,
            reason,
        });
    }

    /// A layer of it has found that again.
    pub(crate) fn resumed(self, protocol: l5p::ProtocolId, how: Resumption) {
        probes::offload_resumed(&|| probes::OffloadResumed {
            function: self.function.0,
            context: self.context.0,
            protocol: protocol.0,
            how,
        });
    }
}

#[cfg(test)]
mod tests;
