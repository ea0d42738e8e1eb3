//! A wrapper that does to frames what bad networks do: loses, duplicates, reorders, corrupts and delays them, and
//! limits their rate.
//!
//! Both directions have settings and random numbers of their own. All is decided by the seed and by the order of frames, and
//! timed by the `now` parameter alone: a run in virtual time can be repeated.

mod line;
mod settings;

pub use line::Counters;
pub use settings::{Impairment, Impairments};

use std::io;
use std::os::fd::BorrowedFd;
use std::time::Instant;

use crate::meta::Capabilities;
use crate::{Fill, Port, Share, Take};
use line::Line;

/// A port with impairments.
#[derive(Debug)]
pub struct Impair<P> {
    port: P,
    outgoing: Line,
    incoming: Line,
    /// Where the frames that are delayed before sending are written.
    buffer: Vec<u8>,
    /// The port had no room for frames that were due: when it has is for it to say.
    is_blocked: bool,
}

impl<P: Port> Impair<P> {
    /// Wraps `port`.
    ///
    /// # Panics
    /// If a probability is not in 0..=1.
    #[must_use]
    pub fn new(port: P, impairments: Impairments, seed: u64) -> Impair<P> {
        Impair {
            outgoing: Line::new(impairments.transmit, seed, 0),
            incoming: Line::new(impairments.receive, seed, 1),
            buffer: vec![0; port.capabilities().max_frame],
            is_blocked: false,
            port,
        }
    }

    /// Replaces the settings. Frames that are held already keep their times; the random numbers go on.
    ///
    /// # Panics
    /// If a probability is not in 0..=1.
    pub fn set_impairments(&mut self, impairments: Impairments) {
        self.outgoing.set_impairment(impairments.transmit);
        self.incoming.set_impairment(impairments.receive);
    }

    /// What was done to sent frames.
    #[must_use]
    pub fn transmit_counters(&self) -> &Counters {
        &self.outgoing.counters
    }

    /// What was done to received frames.
    #[must_use]
    pub fn receive_counters(&self) -> &Counters {
        &self.incoming.counters
    }

    /// Sends frames whose time has come.
    fn transmit_due(&mut self, now: Instant) -> io::Result<usize> {
        let Impair { port, outgoing, .. } = self;
        let sent = port.transmit(now, &mut |buffer| outgoing.take_due(now, buffer))?;
        self.is_blocked = self.outgoing.has_due(now);
        Ok(sent)
    }

    /// The wrapped port.
    pub fn get_ref(&self) -> &P {
        &self.port
    }

    /// The wrapped port. Frames that are still held are lost.
    pub fn into_inner(self) -> P {
        self.port
    }
}

impl<P: Port> Port for Impair<P> {
    /// The wrapped port's, but without super-frames while single packets are to suffer: what hits a
    /// super-frame would hit up to 64 KiB at once. Super-frames that come in are for the wrapped port to avoid.
    fn capabilities(&self) -> Capabilities {
        let capabilities = self.port.capabilities();
        Capabilities {
            tso: capabilities.tso && !self.outgoing.hits_frames(),
            ..capabilities
        }
    }

    fn transmit(&mut self, now: Instant, fill: &mut Fill<'_>) -> io::Result<usize> {
        self.outgoing.expire(now);
        if !self.outgoing.delays() {
            let Impair { port, outgoing, .. } = self;
            let sent = port.transmit(now, &mut |buffer| {
                outgoing.next_undelayed(now, buffer, fill)
            });
            self.is_blocked = self.outgoing.has_due(now);
            return sent;
        }
        let mut sent = self.transmit_due(now)?;
        for _ in 0..BATCH {
            let Some((len, mut meta)) = fill(&mut self.buffer) else {
                break;
            };
            let frame = &mut self.buffer[..len];
            let fate = self.outgoing.draw_fate();
            if fate.corrupted {
                self.outgoing.corrupt(frame, &mut meta);
            }
            self.outgoing.admit(now, fate, frame, meta);
            sent += 1;
        }
        self.transmit_due(now)?;
        Ok(sent)
    }

    fn receive(&mut self, now: Instant, take: &mut Take<'_>) -> io::Result<usize> {
        let Impair { port, incoming, .. } = self;
        if incoming.is_transparent() {
            return port.receive(now, take);
        }
        incoming.expire(now);
        let mut taken = 0;
        while incoming.with_due(now, &mut *take).is_some() {
            taken += 1;
        }
        let received = port.receive(now, &mut |frame, mut meta| {
            let fate = incoming.draw_fate();
            let (mut frame, mut copy) = (frame, Vec::new());
            if fate.corrupted {
                // It may be longer than what the port sends: Linux merges packets that it receives.
                copy.extend_from_slice(frame);
                incoming.corrupt(&mut copy, &mut meta);
                frame = &copy;
            }
            if incoming.admit(now, fate, frame, meta) {
                take(frame, meta);
            }
            while incoming.with_due(now, &mut *take).is_some() {}
        })?;
        Ok(received + taken)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let outgoing = if self.is_blocked {
            None
        } else {
            self.outgoing.poll_timeout()
        };
        [
            self.port.poll_timeout(),
            outgoing,
            self.incoming.poll_timeout(),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.port.fd()
    }

    fn prepare_sleep(&mut self) -> bool {
        self.port.prepare_sleep()
    }

    fn cancel_sleep(&mut self) {
        self.port.cancel_sleep();
    }

    fn queue(&self) -> Option<BorrowedFd<'_>> {
        self.port.queue()
    }

    fn share(&mut self, share: Share) -> io::Result<()> {
        self.port.share(share)
    }

    fn counters(&self, visit: &mut dyn FnMut(&'static str, u64)) {
        self.port.counters(visit);
        let (outgoing, incoming) = EXPLANATIONS.split_at(6);
        for (names, line) in [(outgoing, &self.outgoing), (incoming, &self.incoming)] {
            let counted = line.counters;
            let values = [
                [counted.frames, counted.lost, counted.queue_dropped],
                [counted.duplicated, counted.reordered, counted.corrupted],
            ]
            .concat();
            let named = names.iter().zip(values);
            named.for_each(|((name, _), value)| visit(name, value));
        }
    }
}

macro_rules! explanations {
    ($($name:ident: $explanation:literal;)*) => {
        /// The names of both directions' counters, in the order of their fields, and what they count.
        pub(crate) const EXPLANATIONS: &[(&str, &str)] = &[$((stringify!($name), $explanation)),*];
    };
}

explanations! {
    tx_impair_frames: "Frames sent that the impairments handled.";
    tx_impair_lost: "Frames sent that --loss dropped.";
    tx_impair_queue_dropped: "Frames sent that the full queue of the rate limit dropped.";
    tx_impair_duplicated: "Frames sent that --duplicate sent twice.";
    tx_impair_reordered: "Frames sent that --reorder delayed behind later ones.";
    tx_impair_corrupted: "Frames sent in which --corrupt flipped a bit.";
    rx_impair_frames: "Frames received that the impairments handled.";
    rx_impair_lost: "Frames received that --loss dropped.";
    rx_impair_queue_dropped: "Frames received that the full queue of the rate limit dropped.";
    rx_impair_duplicated: "Frames received that --duplicate delivered twice.";
    rx_impair_reordered: "Frames received that --reorder delayed behind later ones.";
    rx_impair_corrupted: "Frames received in which --corrupt flipped a bit.";
}

/// Frames that one call to `transmit` takes in when it delays them.
const BATCH: usize = 256;
