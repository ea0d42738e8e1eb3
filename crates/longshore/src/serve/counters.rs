//! What `longshore stat` shows of a server.

use crate::control::counters::counters;

counters! {
    /// Of a server, as it is now.
    pub struct ServeCounters {
        /// Connections accepted.
        connections,
        /// Connections open now.
        connections_open,
        /// Connections over which a client speaks HTTP/2.
        http2_connections,
        /// Responses over HTTP/2 that a reset, a refusal, GOAWAY or the client's end cut off.
        http2_resets,
        /// Connections of HTTP/2 that were ended for a flood of frames.
        http2_floods,
        /// Requests received.
        requests,
        /// Successful responses (2xx) sent.
        responses_2xx,
        /// Redirections and not-modified responses (3xx) sent.
        responses_3xx,
        /// Responses with a client error (4xx) sent.
        responses_4xx,
        /// Responses with a server error (5xx) sent.
        responses_5xx,
        /// Bytes of files that the NIC read in place.
        file_bytes_zero_copy,
        /// Bytes of files that were copied.
        file_bytes_copied,
        /// Files mapped into memory now.
        files_mapped,
        /// Files that could not be mapped, and are copied.
        files_unmappable,
        /// Responses reset, or refused with 503, since their file was written to meanwhile.
        files_changed,
        /// Requests for a file that was still mapped.
        file_cache_hits,
        /// Requests for a file that had to be opened and mapped.
        file_cache_misses,
        /// Lines of the access log that were lost because the file took none.
        access_log_lost,
        /// Requests answered with 503 for want of memory.
        requests_shed,
        /// Times that memory became short, or exhausted: then connections wait to be accepted.
        memory_shortages,
        /// Clients that took too long for TLS's handshake, for a frame or fields of HTTP/2, or to close.
        client_timeouts,
        /// Clients given up for taking nothing within `--send-timeout`, or answering no retransmission.
        send_timeouts,
        /// Clients reset because they took less than `--min-rate`.
        slow_readers,
        /// Connections closed for a pattern of `--match` in them.
        match_closes,
    }
}
