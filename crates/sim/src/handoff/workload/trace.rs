//! Traces of web sites, as generators. A visitor looks at pages; each brings a few requests. Between pages goes some time, and when
//! it is more than fifteen seconds, the next page is on another connection (Connection handoff policies §4.2). The replayer does not wait these times.

use std::time::Duration;

use rand::RngExt as _;
use rand_pcg::Pcg64Mcg;

use super::draw::{LogNormal, part};
use super::{Content, Request};

/// Requests further apart than this in the trace are not on one connection, in seconds (Connection handoff policies §4.2).
const PERSISTENT: f64 = 15.0;

/// Time from a response to the replayer's next request (derived: of a client's round, which is 2,048 clients over requests per second,
/// §5.3's response times leave 16 to 28 ms; the end of one connection and the begin of the next take the rest).
const TURNAROUND: Duration = Duration::from_millis(10);

/// A web site and who comes to it.
#[derive(Debug)]
pub struct Site {
    /// Bytes of a request.
    request: u32,
    /// Bytes of a response's header.
    header: u32,
    /// The largest file.
    largest: f64,
    /// Who comes, with the share of connections that each makes up.
    kinds: &'static [(f64, Kind)],
}

/// A kind of visitor.
#[derive(Debug)]
struct Kind {
    /// Requests that a page brings besides its own, in the mean.
    embedded: f64,
    /// Seconds from page to page.
    gap: LogNormal,
    /// Visitors differ: all sizes of a connection are multiplied with a draw of this deviation (of the logarithm).
    taste: f64,
    /// Sizes of files, in bytes.
    sizes: LogNormal,
}

/// The World Cup site: many who look at pages with small pictures, and a tenth who come for what is large.
pub static WORLD_CUP: Site = Site {
    request: 300,
    header: 250,
    largest: 3e5,
    kinds: &[
        (0.9, kind(1.6, 11.2, 0.4, (1300.0, 1.0))),
        (0.1, kind(1.6, 9.0, 0.6, (28_000.0, 0.5))),
    ],
};

/// The IBM site: smaller files; visitors who look at a page, and those who read.
pub static IBM: Site = Site {
    request: 300,
    header: 250,
    largest: 3e5,
    kinds: &[
        (0.75, kind(3.0, 35.0, 0.4, (1050.0, 1.0))),
        (0.25, kind(4.0, 5.0, 0.7, (1300.0, 1.0))),
    ],
};

const fn kind(embedded: f64, gap: f64, taste: f64, (median, sigma): (f64, f64)) -> Kind {
    Kind {
        embedded,
        gap: LogNormal {
            median: gap,
            sigma: 1.0,
        },
        taste,
        sizes: LogNormal { median, sigma },
    }
}

/// One of a site's visitors.
#[derive(Clone, Debug)]
pub struct Visitor {
    site: &'static Site,
    kind: &'static Kind,
    /// What sizes are multiplied with.
    taste: f64,
    /// Requests of the current page that are left.
    left: u32,
    over: bool,
}

impl Visitor {
    /// A visitor of this site.
    pub fn new(site: &'static Site) -> Self {
        Self {
            site,
            kind: &site.kinds[0].1,
            taste: 1.0,
            left: 0,
            over: true,
        }
    }

    /// Somebody comes.
    pub fn connect(&mut self, rng: &mut Pcg64Mcg) {
        let kind = part(self.site.kinds.iter().map(|(share, _)| *share), rng);
        self.kind = &self.site.kinds[kind].1;
        self.taste = LogNormal {
            median: 1.0,
            sigma: self.kind.taste,
        }
        .draw(rng);
        self.over = false;
        self.left = self.page(rng);
    }

    /// The next request of this visitor on this connection.
    pub fn next_request(&mut self, rng: &mut Pcg64Mcg) -> Option<Request> {
        if self.over {
            return None;
        }
        if self.left == 0 {
            if self.kind.gap.draw(rng) > PERSISTENT {
                self.over = true;
                return None;
            }
            self.left = self.page(rng);
        }
        self.left -= 1;
        let content = self.taste * self.kind.sizes.draw(rng);
        Some(Request {
            request: self.site.request,
            header: self.site.header,
            content: content.clamp(1.0, self.site.largest) as u32,
            kind: Content::Static,
            pace: None,
            turnaround: TURNAROUND,
        })
    }

    /// Draws how many requests a page brings: itself, and what is embedded (geometric).
    fn page(&self, rng: &mut Pcg64Mcg) -> u32 {
        let more = self.kind.embedded / (1.0 + self.kind.embedded);
        let mut requests = 1;
        while requests < 1000 && rng.random_bool(more) {
            requests += 1;
        }
        requests
    }
}
