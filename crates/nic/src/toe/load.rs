//! Load control: how many connections the host may hand off, by the length of the queue of received NIC packets (Connection handoff policies §3.2,
//! Figure 3).
//!
//! ```text
//!             Qlen > Hiwat: lower Soft_limit, tell          Qlen < Lowat: raise Soft_limit, tell
//!           ┌───────────────────────────────────── MONITOR ──────────────────────────────────────┐
//!           ▼                                     ▲       ▲                                       ▼
//!        DECREASE ── Cnum < Soft_limit ───────────┘       └────────────── Cnum = Soft_limit ── INCREASE
//!           ▲                                                                                     │
//!           └───────────────────── Qlen > Hiwat: lower Soft_limit, tell ──────────────────────────┘
//! ```
//!
//! DECREASE waits for connections to end (or to be given back), INCREASE for new ones; between two changes of Soft_limit in the
//! same direction the number of connections has always reached what the first one asked for. The figure does not say by
//! how much Soft_limit changes; [`LoadControl`] lowers it to seven eighths of the connections that there are, and raises
//! it by a thirty-second part: what overloads a NIC is taken away at once, and what may be too much is given in small pieces.

/// The three constants of the seed's six parameters. They depend on the NIC's memory and speed alone, not on the workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadConfig {
    /// Hard_limit: connections that the NIC has memory for.
    pub hard_limit: u32,
    /// Hiwat: with more NIC packets than this in the receive queue, the NIC is overloaded.
    pub hiwat: u32,
    /// Lowat: with fewer NIC packets than this in the receive queue, the NIC has room for more. At least 1, so that an empty queue
    /// counts, and not above Hiwat; other values are taken for the nearest of these.
    pub lowat: u32,
}

/// Where the machine of the seed's Figure 3 stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadState {
    /// Looks at the queue.
    Monitor,
    /// Has lowered Soft_limit and waits for the connections to become fewer than it.
    Decrease,
    /// Has raised Soft_limit and waits for the connections to become as many.
    Increase,
}

/// The machine. It runs when a packet arrives, a connection is handed off, and one ends or is restored; each of these answers
/// the new Soft_limit if it has changed, and only then: that is to be reported to the host.
///
/// `qlen` is Qlen, the NIC packets in the receive queue (with the one that just came); `cnum` is Cnum, the connections that the
/// NIC runs (after the change).
#[derive(Clone, Debug)]
pub struct LoadControl {
    config: LoadConfig,
    state: LoadState,
    /// Never above Hard_limit, and never 0 unless that is: with no connection at all no packet would ever say that there is
    /// room again.
    soft_limit: u32,
}

impl LoadControl {
    /// In MONITOR, with Soft_limit at Hard_limit.
    pub fn new(config: LoadConfig) -> Self {
        let lowat = config.lowat.max(1);
        let config = LoadConfig {
            hiwat: config.hiwat.max(lowat),
            lowat,
            ..config
        };
        Self {
            config,
            state: LoadState::Monitor,
            soft_limit: config.hard_limit,
        }
    }

    /// A packet has arrived.
    #[inline]
    pub fn packet_arrived(&mut self, qlen: u32, cnum: u32) -> Option<u32> {
        self.run(qlen, cnum)
    }

    /// A connection was handed off to the NIC.
    #[inline]
    pub fn handed_off(&mut self, qlen: u32, cnum: u32) -> Option<u32> {
        self.run(qlen, cnum)
    }

    /// A connection of the NIC has ended, or went back to the host.
    #[inline]
    pub fn terminated(&mut self, qlen: u32, cnum: u32) -> Option<u32> {
        self.run(qlen, cnum)
    }

    /// Whether one more connection may be handed off while there are `cnum`.
    #[inline]
    pub fn admits(&self, cnum: u32) -> bool {
        cnum < self.soft_limit
    }

    /// The constants, as they are used.
    pub fn config(&self) -> LoadConfig {
        self.config
    }

    /// The state.
    #[inline]
    pub fn state(&self) -> LoadState {
        self.state
    }

    /// Soft_limit: the most connections that may be handed off now.
    #[inline]
    pub fn soft_limit(&self) -> u32 {
        self.soft_limit
    }

    #[inline]
    fn run(&mut self, qlen: u32, cnum: u32) -> Option<u32> {
        match self.state {
            LoadState::Monitor if qlen > self.config.hiwat => self.lower(cnum),
            LoadState::Monitor if qlen < self.config.lowat => self.raise(),
            LoadState::Monitor => None,
            LoadState::Increase if qlen > self.config.hiwat => self.lower(cnum),
            LoadState::Increase => {
                if cnum >= self.soft_limit {
                    self.state = LoadState::Monitor;
                }
                None
            }
            LoadState::Decrease => {
                if cnum < self.soft_limit {
                    self.state = LoadState::Monitor;
                }
                None
            }
        }
    }

    /// To seven eighths of the connections that there are: what is above that number limits nothing.
    #[cold]
    fn lower(&mut self, cnum: u32) -> Option<u32> {
        let floor = self.config.hard_limit.min(1);
        let used = self.soft_limit.min(cnum);
        let lowered = (used - used.div_ceil(8)).max(floor).min(self.soft_limit);
        self.state = LoadState::Decrease;
        self.change(lowered)
    }

    /// By a thirty-second part. At Hard_limit there is nothing to raise, and nothing to wait for.
    #[inline]
    fn raise(&mut self) -> Option<u32> {
        if self.soft_limit >= self.config.hard_limit {
            return None;
        }
        let step = (self.soft_limit / 32).max(1);
        self.state = LoadState::Increase;
        self.change(
            self.soft_limit
                .saturating_add(step)
                .min(self.config.hard_limit),
        )
    }

    fn change(&mut self, soft_limit: u32) -> Option<u32> {
        let changed = self.soft_limit != soft_limit;
        self.soft_limit = soft_limit;
        changed.then_some(soft_limit)
    }
}

#[cfg(test)]
mod tests;
