//! Counters of the load balancer, named as in HAProxy's statistics where it has them.

use super::unspliced::Unspliced;
use crate::control::counters::counters;

counters! {
    /// Of a frontend.
    pub struct FrontendCounters {
        /// Connections accepted.
        connections,
        /// Connections open now.
        connections_open,
        /// Requests received.
        requests,
        /// Bytes received from clients.
        bytes_in,
        /// Bytes sent to clients.
        bytes_out,
        /// Informational responses (1xx) sent to clients.
        responses_1xx,
        /// Successful responses (2xx) sent to clients.
        responses_2xx,
        /// Redirections and other responses with 3xx sent to clients.
        responses_3xx,
        /// Responses with a client error (4xx) sent to clients.
        responses_4xx,
        /// Responses with a server error (5xx) sent to clients.
        responses_5xx,
        /// Requests that the load balancer answered itself with an error.
        requests_refused,
        /// Requests answered with 503 for want of memory.
        requests_shed,
        /// Times that memory became short, or exhausted: then connections wait to be accepted.
        memory_shortages,
        /// Connections by HTTP/2; their requests count as others do.
        http2_connections,
        /// Clients of HTTP/2 sent away for frames that ask for nothing, or for resets.
        http2_floods,
        /// Streams of HTTP/2 that ended before their response was whole.
        http2_resets,
        /// TLS handshakes with clients that came to their end.
        handshakes,
        /// TLS handshakes with clients that failed.
        handshake_failures,
        /// Clients that took too long.
        client_timeouts,
        /// Clients reset because they took less than `min-rate`.
        slow_readers,
        /// Clients that left before their exchange was complete.
        client_aborts,
        /// Connections closed for a pattern of `match` in them.
        match_closes,
        /// Connections refused for a missing or malformed PROXY protocol header.
        proxy_headers_refused,
        /// Connections relayed as plain bytes: TCP frontends, upgrades, and HTTP without rewriting.
        tunnels,
        /// Tunnels that the NIC spliced.
        splices,
        /// Responses and connections that the host relayed instead; the sum of `splice_refused_…`.
        splices_refused,
        /// Not spliced: the frontend has `splice = "never"` or `match`.
        splice_refused_config,
        /// Not spliced: the client may send another request: it did not ask for `Connection: close`.
        splice_refused_keep_alive,
        /// Not spliced: too little was sent to be worth a splice.
        splice_refused_short,
        /// Not spliced: the response comes in chunks.
        splice_refused_chunked,
        /// Not spliced: the backend refused the upgrade that the client asked for.
        splice_refused_upgrade,
        /// Not spliced: the response began before the end of the request.
        splice_refused_upload,
        /// Not spliced: the client sent more behind its request.
        splice_refused_client_data,
        /// Not spliced: the backend closes the connection after the response.
        splice_refused_backend_close,
        /// Not spliced: the NIC does not splice.
        splice_refused_unsupported,
        /// Not spliced: a connection ended or was half closed.
        splice_refused_closing,
        /// Not spliced: data came to the host meanwhile.
        splice_refused_unread,
        /// Not spliced: a peer did not acknowledge in time what it was sent.
        splice_refused_unacked,
        /// Not spliced: one connection is IPv4, the other IPv6.
        splice_refused_family,
        /// Not spliced: the two connections have different MSS.
        splice_refused_mss,
        /// Not spliced: only one connection has timestamps.
        splice_refused_timestamps,
        /// Not spliced: only one connection has SACK.
        splice_refused_sack,
        /// Not spliced: the MAC address of a next hop is unknown.
        splice_refused_next_hop,
        /// Not spliced: the NIC's table of splices is full.
        splice_refused_table_full,
        /// Not spliced: the NIC has one of the connections already.
        splice_refused_flow_exists,
        /// Splices that ended.
        splices_ended,
        /// Bytes that ended splices carried from clients.
        spliced_bytes_in,
        /// Bytes that ended splices carried to clients.
        spliced_bytes_out,
        /// Packets that ended splices carried from clients.
        spliced_packets_in,
        /// Packets that ended splices carried to clients.
        spliced_packets_out,
    }
}

impl FrontendCounters {
    /// The host relays something for this reason, which the NIC could have spliced.
    pub fn relayed(&mut self, why: Unspliced) {
        self.splices_refused += 1;
        *match why {
            Unspliced::Config => &mut self.splice_refused_config,
            Unspliced::KeepAlive => &mut self.splice_refused_keep_alive,
            Unspliced::Short => &mut self.splice_refused_short,
            Unspliced::Chunked => &mut self.splice_refused_chunked,
            Unspliced::Upgrade => &mut self.splice_refused_upgrade,
            Unspliced::Upload => &mut self.splice_refused_upload,
            Unspliced::ClientData => &mut self.splice_refused_client_data,
            Unspliced::BackendClose => &mut self.splice_refused_backend_close,
            Unspliced::Unsupported => &mut self.splice_refused_unsupported,
            Unspliced::Closing => &mut self.splice_refused_closing,
            Unspliced::Unread => &mut self.splice_refused_unread,
            Unspliced::Unacked => &mut self.splice_refused_unacked,
            Unspliced::Family => &mut self.splice_refused_family,
            Unspliced::Mss => &mut self.splice_refused_mss,
            Unspliced::Timestamps => &mut self.splice_refused_timestamps,
            Unspliced::Sack => &mut self.splice_refused_sack,
            Unspliced::NextHop => &mut self.splice_refused_next_hop,
            Unspliced::TableFull => &mut self.splice_refused_table_full,
            Unspliced::FlowExists => &mut self.splice_refused_flow_exists,
        } += 1;
    }

    /// A response of this status goes to a client.
    pub fn responded(&mut self, status: u16) {
        *match status {
            ..200 => &mut self.responses_1xx,
            200..300 => &mut self.responses_2xx,
            300..400 => &mut self.responses_3xx,
            400..500 => &mut self.responses_4xx,
            500.. => &mut self.responses_5xx,
        } += 1;
    }
}

counters! {
    /// Of a pool, as it is now.
    pub struct PoolState {
        /// Requests in the queue now.
        waiting,
        /// 1 while so few backends are up that requests go to all of them.
        panic,
    }
}

counters! {
    /// Of a pool.
    pub struct PoolCounters {
        /// Requests for this pool.
        requests,
        /// Requests tried again after a failed attempt.
        retries,
        /// Requests tried on another backend after a failed attempt.
        redispatches,
        /// Requests that waited in the queue.
        queued,
        /// Requests refused because they waited in the queue too long.
        queue_timeouts,
        /// Requests refused because the queue was full.
        queue_overflows,
        /// Requests refused because no backend was up.
        no_server,
        /// Times that so few backends were up that requests went to all of them.
        panics,
        /// Requests sent while so few backends were up that they went to all of them.
        panic_requests,
    }
}

counters! {
    /// Of a backend, as it is now.
    pub struct ServerState {
        /// 1 when the backend is up, 0 when it is down.
        up,
        /// 1 when the backend drains: it gets no new requests.
        draining,
        /// Requests and tunnels on the backend now.
        active,
        /// Idle connections to the backend, ready for reuse.
        idle,
    }
}

counters! {
    /// Of a backend.
    pub struct ServerCounters {
        /// Requests sent to the backend.
        requests,
        /// Connections opened to the backend.
        connections,
        /// Requests sent on a connection opened for an earlier one.
        connections_reused,
        /// Connections to the backend that failed to open.
        connect_failures,
        /// Connections to the backend that took too long to open.
        connect_timeouts,
        /// Connections to the backend that failed for want of memory, ports or sockets here.
        connects_starved,
        /// Responses that were malformed, or broke off before their head was complete.
        response_failures,
        /// Responses that took too long to begin.
        response_timeouts,
        /// Responses that broke off after their head.
        aborts,
        /// Successful responses (2xx) of the backend.
        responses_2xx,
        /// Redirections and other responses with 3xx of the backend.
        responses_3xx,
        /// Responses with a client error (4xx) of the backend.
        responses_4xx,
        /// Responses with a server error (5xx) of the backend.
        responses_5xx,
        /// Bytes received from the backend.
        bytes_in,
        /// Bytes sent to the backend.
        bytes_out,
        /// Health checks made.
        checks,
        /// Health checks that failed.
        check_failures,
        /// Health checks without a result for want of memory, ports or sockets here.
        checks_starved,
        /// Times that the backend went down.
        went_down,
        /// Times that the backend came up again.
        went_up,
    }
}

impl ServerCounters {
    /// A final response of this status came.
    pub fn responded(&mut self, status: u16) {
        *match status {
            ..300 => &mut self.responses_2xx,
            300..400 => &mut self.responses_3xx,
            400..500 => &mut self.responses_4xx,
            500.. => &mut self.responses_5xx,
        } += 1;
    }
}
