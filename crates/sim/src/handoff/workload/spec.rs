//! SPECweb99's clients: what SPEC's description of the benchmark says, and Connection handoff policies §4.2.
//!
//! - Files are of four classes with nine sizes each; a class is chosen by its share, and within a class the middle ones are asked
//!   for most. Which directory a file is in follows Zipf's law; every directory has the same sizes, so it is not drawn.
//! - 70 % of the requests go over persistent connections, with 5 to 15 requests each, 10 in the mean.
//! - A client takes no more than about 400 kbit/s.

use std::time::Duration;

use rand::RngExt as _;
use rand_pcg::Pcg64Mcg;

use super::draw::part;
use super::{Content, Request};

/// Share of the requests for dynamic content (Connection handoff policies §4.2: 70 % static, 30 % dynamic).
pub const DYNAMIC: f64 = 0.3;

/// Shares of the classes, of which the first has files of 0.1 to 0.9 KiB, each further one ten times as large.
const CLASSES: [f64; 4] = [0.35, 0.50, 0.14, 0.01];

/// Smallest file of the first class, in bytes, and the step between its files.
const STEP: f64 = 102.4;

/// Shares of the nine files in a class, from the smallest, in percent.
const FILES: [f64; 9] = [3.9, 5.9, 8.8, 17.7, 35.3, 11.8, 7.1, 5.0, 4.5];

/// Requests over persistent connections.
const PERSISTENT: f64 = 0.7;

/// Requests on a persistent connection.
const REQUESTS: std::ops::RangeInclusive<u32> = 5..=15;

/// Bytes that a client takes per second. It should be 400 kbit/s, "in reality, throughput can become greater than the specified rate as
/// it is difficult to maintain throughput strictly under the specified rate": where nothing else limits them, 2,048 clients get
/// 1,014 Mbit/s, 495 kbit/s each, by 10,500 requests/s (Connection handoff policies §5.3 and Figure 8, D at 800 MIPS). Responses are a little smaller here:
/// with 484 kbit/s there are as many requests.
const PACE: u32 = 60_500;

/// Bytes of a request, with its headers.
const REQUEST: u32 = 200;

/// Bytes of a response's headers.
const HEADER: u32 = 240;

/// One of SPECweb99's clients.
#[derive(Clone, Debug)]
pub struct User {
    dynamic: f64,
    left: u32,
}

impl User {
    /// One of whose requests this share is for dynamic content.
    pub fn new(dynamic: f64) -> Self {
        Self { dynamic, left: 0 }
    }

    /// Draws whether the next connection is persistent.
    pub fn connect(&mut self, rng: &mut Pcg64Mcg) {
        let mean = f64::from(REQUESTS.start() + REQUESTS.end()) / 2.0;
        let persistent = PERSISTENT / mean;
        self.left = match part([persistent, 1.0 - PERSISTENT].into_iter(), rng) {
            0 => rng.random_range(REQUESTS),
            _ => 1,
        };
    }

    /// Draws a file.
    pub fn next_request(&mut self, rng: &mut Pcg64Mcg) -> Option<Request> {
        self.left = self.left.checked_sub(1)?;
        let class = part(CLASSES.into_iter(), rng);
        let file = part(FILES.into_iter(), rng) + 1;
        let content = (STEP * file as f64 * 10f64.powi(class as i32)) as u32;
        Some(Request {
            request: REQUEST,
            header: HEADER,
            content,
            kind: match rng.random_bool(self.dynamic) {
                true => Content::Dynamic,
                false => Content::Static,
            },
            pace: Some(PACE),
            turnaround: Duration::ZERO,
        })
    }
}
