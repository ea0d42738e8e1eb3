//! Host cycles by component.
//!
//! The meter is switched at component boundaries: all cycles since the last switch go to the component that was
//! on. A reading costs some 20 cycles, so that switches are made per packet of up to 64 KiB or per batch, never
//! per small packet; a meter that is off costs a branch.

/// Where the host's cycles go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(usize)]
pub enum Component {
    /// Outside of the stack: the application.
    App,
    /// Plain copies between the application's memory and the stack's. A software seal or open that writes its
    /// result to its place counts as L5.
    Copy,
    /// Record framing, software crypto, fallbacks.
    L5,
    /// TCP, sockets, timers.
    Tcp,
    /// Rings, headers, shadow contexts, recovery, demultiplexing.
    Driver,
    /// Waiting for something to do.
    Idle,
}

impl Component {
    /// Every component.
    pub const ALL: [Self; 6] = [
        Self::App,
        Self::Copy,
        Self::L5,
        Self::Tcp,
        Self::Driver,
        Self::Idle,
    ];

    /// The component's name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::App => "app",
            Self::Copy => "copy",
            Self::L5 => "l5",
            Self::Tcp => "tcp",
            Self::Driver => "driver",
            Self::Idle => "idle",
        }
    }
}

/// Cycles by component since the meter was made.
#[derive(Clone, Debug)]
pub struct Meter {
    enabled: bool,
    current: Component,
    last: u64,
    cycles: [u64; Component::ALL.len()],
}

impl Meter {
    pub(crate) fn new(enabled: bool) -> Self {
        Self {
            enabled,
            current: Component::App,
            last: read_cycles(),
            cycles: [0; Component::ALL.len()],
        }
    }

    /// Whether readings are taken.
    pub fn is_enabled(&self) -> bool {
        self.enabled
    }

    /// Cycles of one component, up to the last switch.
    pub fn cycles(&self, component: Component) -> u64 {
        self.cycles[component as usize]
    }

    /// Cycles of every component by name, up to the last switch.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        Component::ALL
            .into_iter()
            .map(|component| (component.name(), self.cycles(component)))
    }

    /// Starts a component; gives the one that was on.
    #[inline]
    pub fn switch(&mut self, to: Component) -> Component {
        let from = self.current;
        if self.enabled && from != to {
            let now = read_cycles();
            self.cycles[from as usize] += now.wrapping_sub(self.last);
            self.last = now;
            self.current = to;
        }
        from
    }
}

/// The time-stamp counter.
#[cfg(target_arch = "x86_64")]
#[inline]
pub fn read_cycles() -> u64 {
    // SAFETY: RDTSC has no precondition; a system that forbids it to processes does not run Rust's std either.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// Nanoseconds, where there is no time-stamp counter to read.
#[cfg(not(target_arch = "x86_64"))]
pub fn read_cycles() -> u64 {
    use std::sync::OnceLock;
    use std::time::Instant;
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_nanos() as u64
}
