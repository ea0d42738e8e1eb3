//! What a target answers on its control socket.

use host::nvme::target::Target;

use crate::attach::Attached;
use crate::control::counters::counters;
use crate::control::{Answer, CounterGroup, NvmeFigures, Request, Socket};

/// Answers a question.
pub(super) fn answer(request: Request, target: &mut Target, attached: &mut Attached) -> Answer {
    match request {
        Request::Sockets => Answer::Sockets(sockets(target, attached)),
        request => attached.answer(request, || {
            [CounterGroup::new("nvme", counters(target).iter())]
        }),
    }
}

fn sockets(target: &Target, attached: &mut Attached) -> Vec<Socket> {
    let queues: Vec<_> = target.queues().collect();
    let sockets = attached.runtime.stack().sockets();
    let show = |info: host::SocketInfo| {
        let mut socket = Socket::from(&info);
        let queue = queues.iter().find(|(id, _)| Some(*id) == info.id);
        socket.nvme = queue.map(|(_, queue)| NvmeFigures {
            controller: queue.controller,
            queue: queue.queue,
            host: queue.host.to_string(),
            subsystem: queue.subsystem.to_string(),
            depth: queue.entries,
            in_flight: queue.in_flight as u32,
        });
        socket
    };
    sockets.map(show).collect()
}

counters! {
    /// Of a target, as it is now.
    pub struct TargetCounters {
        /// Connections accepted.
        connections,
        /// Connections reset because the operations of too many closed ones were not done.
        connections_refused,
        /// Connections closed for newer ones before they became a queue, TLS handshakes included.
        connections_evicted,
        /// TLS handshakes that failed.
        tls_handshakes_failed,
        /// TLS handshakes that took too long.
        tls_handshakes_timed_out,
        /// Controllers created: one per host that connects.
        controllers,
        /// Connect commands refused.
        connects_refused,
        /// Connect commands refused because there were as many queues or controllers as there may be.
        connects_busy,
        /// Commands received.
        commands,
        /// Commands that failed.
        commands_failed,
        /// Read and Compare commands that succeeded.
        reads,
        /// Bytes read by the commands in reads.
        read_bytes,
        /// Write commands that succeeded.
        writes,
        /// Bytes written by the commands in writes.
        written_bytes,
        /// Flush commands that succeeded.
        flushes,
        /// PDUs received with a wrong data digest.
        data_digest_errors,
        /// Connections closed because of an invalid PDU.
        fatal_errors,
        /// Flushes at a controller's shutdown that failed; written data may not be durable.
        shutdown_flushes_failed,
        /// Controllers closed because their host was silent too long.
        keep_alive_timeouts,
        /// Connections closed because their host did not send the data that an R2T asked for.
        r2t_timeouts,
        /// Buffers mapped for the NIC to place data in.
        buffers_mapped,
        /// Commands failed because the NIC placed data that the TCP stream did not deliver.
        buffers_tainted,
        /// Bytes of memory for the data of commands in use now.
        memory_used,
        /// Bytes of memory for the data of commands in all.
        memory,
        /// Operations on backing files in flight now.
        store_operations,
        /// 1 for each core that accesses backing files by io_uring; others use threads.
        io_uring,
    }
}

fn counters(target: &Target) -> TargetCounters {
    let (machine, links) = (target.counters(), target.link_counters());
    let (used, all) = target.memory();
    let stores = target.stores();
    TargetCounters {
        connections: machine.connections,
        connections_refused: links.refused,
        connections_evicted: machine.evicted + links.handshakes_evicted,
        tls_handshakes_failed: links.handshakes_failed,
        tls_handshakes_timed_out: links.handshakes_timed_out,
        controllers: machine.controllers,
        connects_refused: machine.refused_connects,
        connects_busy: machine.busy_connects,
        commands: machine.commands,
        commands_failed: machine.failed_commands,
        reads: machine.reads,
        read_bytes: machine.bytes_read,
        writes: machine.writes,
        written_bytes: machine.bytes_written,
        flushes: machine.flushes,
        data_digest_errors: machine.digest_errors,
        fatal_errors: machine.fatal_errors,
        shutdown_flushes_failed: machine.failed_shutdown_flushes,
        keep_alive_timeouts: machine.keep_alive_expired,
        r2t_timeouts: machine.r2t_expired,
        buffers_mapped: links.mapped,
        buffers_tainted: links.tainted,
        memory_used: used,
        memory: all,
        store_operations: stores.in_flight() as u64,
        io_uring: stores.uses_io_uring().into(),
    }
}
