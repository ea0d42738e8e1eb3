//! What the load balancer counts, named as HAProxy's statistics name it where they do.

use super::unspliced::UnsplicedCounters;

/// Of a frontend.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct FrontendCounters {
    pub connections: u64,
    pub connections_open: u64,
    pub requests: u64,
    pub bytes_in: u64,
    pub bytes_out: u64,
    pub responses: [u64; 5],
    pub requests_refused: u64,
    pub client_timeouts: u64,
    pub client_aborts: u64,
    pub proxy_headers_refused: u64,
    pub tunnels: u64,
    pub splices: u64,
    pub splices_refused: UnsplicedCounters,
    pub splices_ended: u64,
    pub spliced_bytes_in: u64,
    pub spliced_bytes_out: u64,
    pub spliced_packets_in: u64,
    pub spliced_packets_out: u64,
}

impl FrontendCounters {
    /// A final response of this status goes to a client.
    pub fn responded(&mut self, status: u16) {
        let class = usize::from(status / 100).clamp(1, 5);
        self.responses[class - 1] += 1;
    }

    /// Names and values.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let [r1, r2, r3, r4, r5] = self.responses;
        [
            ("connections", self.connections),
            ("connections_open", self.connections_open),
            ("requests", self.requests),
            ("bytes_in", self.bytes_in),
            ("bytes_out", self.bytes_out),
            ("responses_1xx", r1),
            ("responses_2xx", r2),
            ("responses_3xx", r3),
            ("responses_4xx", r4),
            ("responses_5xx", r5),
            ("requests_refused", self.requests_refused),
            ("client_timeouts", self.client_timeouts),
            ("client_aborts", self.client_aborts),
            ("proxy_headers_refused", self.proxy_headers_refused),
            ("tunnels", self.tunnels),
            ("splices", self.splices),
            ("splices_refused", self.splices_refused.total()),
            ("splices_ended", self.splices_ended),
            ("spliced_bytes_in", self.spliced_bytes_in),
            ("spliced_bytes_out", self.spliced_bytes_out),
            ("spliced_packets_in", self.spliced_packets_in),
            ("spliced_packets_out", self.spliced_packets_out),
        ]
        .into_iter()
        .chain(self.splices_refused.iter())
    }
}

/// Of a pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct PoolCounters {
    pub requests: u64,
    pub retries: u64,
    pub redispatches: u64,
    pub queued: u64,
    pub queue_timeouts: u64,
    pub queue_overflows: u64,
    pub no_server: u64,
}

impl PoolCounters {
    /// Names and values.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
        [
            ("requests", self.requests),
            ("retries", self.retries),
            ("redispatches", self.redispatches),
            ("queued", self.queued),
            ("queue_timeouts", self.queue_timeouts),
            ("queue_overflows", self.queue_overflows),
            ("no_server", self.no_server),
        ]
        .into_iter()
    }
}

/// Of a backend.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct ServerCounters {
    pub requests: u64,
    pub connections: u64,
    pub connections_reused: u64,
    pub connect_failures: u64,
    pub connect_timeouts: u64,
    pub response_failures: u64,
    pub response_timeouts: u64,
    pub aborts: u64,
    pub responses: [u64; 5],
    pub bytes_in: u64,
    pub bytes_out: u64,
    pub checks: u64,
    pub check_failures: u64,
    pub went_down: u64,
    pub went_up: u64,
}

impl ServerCounters {
    /// A final response of this status came.
    pub fn responded(&mut self, status: u16) {
        let class = usize::from(status / 100).clamp(1, 5);
        self.responses[class - 1] += 1;
    }

    /// Names and values.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let [_, r2, r3, r4, r5] = self.responses;
        [
            ("requests", self.requests),
            ("connections", self.connections),
            ("connections_reused", self.connections_reused),
            ("connect_failures", self.connect_failures),
            ("connect_timeouts", self.connect_timeouts),
            ("response_failures", self.response_failures),
            ("response_timeouts", self.response_timeouts),
            ("aborts", self.aborts),
            ("responses_2xx", r2),
            ("responses_3xx", r3),
            ("responses_4xx", r4),
            ("responses_5xx", r5),
            ("bytes_in", self.bytes_in),
            ("bytes_out", self.bytes_out),
            ("checks", self.checks),
            ("check_failures", self.check_failures),
            ("went_down", self.went_down),
            ("went_up", self.went_up),
        ]
        .into_iter()
    }
}
