//! Linux's side of a TAP, measured on a thread in a network namespace of its own.

use hdrhistogram::Histogram;
use port::tap::Tap;

use super::namespace;
use super::resident::Resident;

/// What measures beside a TAP.
pub trait Rig {
    /// Has so many connections opened and used. Answers the cycles that Linux took, and whether every byte until now was the
    /// right one.
    ///
    /// # Errors
    /// When a connection fails, or nothing moves any more.
    fn round(&mut self, connections: u64) -> anyhow::Result<Measured>;

    /// Nanoseconds from requests to responses since this was asked last.
    fn take_latency(&mut self) -> Histogram<u64>;
}

/// What a round came to.
#[derive(Clone, Copy, Debug)]
pub struct Measured {
    /// Cycles that Linux took, with its application.
    pub cycles: f64,
    /// Whether every byte until now was the right one.
    pub verified: bool,
}

/// The thread. The namespace and the TAP in it go away with it.
pub struct Linux(Resident<Box<dyn Rig>>);

impl Linux {
    /// Makes the namespace, the TAP in it, and what is to measure there.
    ///
    /// # Errors
    /// When they can't be made, which needs CAP_SYS_ADMIN and CAP_NET_ADMIN.
    pub fn start<R: Rig + 'static>(
        make: impl FnOnce(Tap) -> anyhow::Result<R> + Send + 'static,
    ) -> anyhow::Result<Self> {
        let rig = move || Ok(Box::new(make(namespace::open_tap()?)?) as Box<dyn Rig>);
        Resident::start("linux", rig).map(Self)
    }

    /// See [`Rig::round`].
    ///
    /// # Errors
    /// When a connection fails, or nothing moves any more.
    pub fn round(&self, connections: u64) -> anyhow::Result<Measured> {
        self.0.run(move |rig| rig.round(connections))
    }

    /// See [`Rig::take_latency`].
    ///
    /// # Errors
    /// When the thread is gone.
    pub fn take_latency(&self) -> anyhow::Result<Histogram<u64>> {
        self.0.run(|rig| Ok(rig.take_latency()))
    }
}
