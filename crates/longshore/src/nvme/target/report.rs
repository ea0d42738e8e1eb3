//! What a target answers on its control socket.

use host::nvme::target::Target;

use crate::attach::Attached;
use crate::control::{Answer, CounterGroup, NvmeFigures, Request, Socket};

/// Answers a question.
pub(super) fn answer(request: Request, target: &mut Target, attached: &mut Attached) -> Answer {
    match request {
        Request::Sockets => Answer::Sockets(sockets(target, attached)),
        request => attached.answer(request, || [CounterGroup::new("nvme", counters(target))]),
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

fn counters(target: &Target) -> [(&'static str, u64); 23] {
    let (machine, links) = (target.counters(), target.link_counters());
    let (used, all) = target.memory();
    let stores = target.stores();
    [
        ("connections", machine.connections),
        ("connections_refused", links.refused),
        ("tls_handshakes_failed", links.handshakes_failed),
        ("tls_handshakes_timed_out", links.handshakes_timed_out),
        ("controllers", machine.controllers),
        ("connects_refused", machine.refused_connects),
        ("commands", machine.commands),
        ("commands_failed", machine.failed_commands),
        ("reads", machine.reads),
        ("read_bytes", machine.bytes_read),
        ("writes", machine.writes),
        ("written_bytes", machine.bytes_written),
        ("flushes", machine.flushes),
        ("data_digest_errors", machine.digest_errors),
        ("fatal_errors", machine.fatal_errors),
        ("shutdown_flushes_failed", machine.failed_shutdown_flushes),
        ("keep_alive_timeouts", machine.keep_alive_expired),
        ("buffers_mapped", links.mapped),
        ("buffers_tainted", links.tainted),
        ("memory_used", used),
        ("memory", all),
        ("store_operations", stores.in_flight() as u64),
        ("io_uring", stores.uses_io_uring().into()),
    ]
}
