//! A thread that asks the services, so that the screen answers keys while one of them does not answer.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use super::rates::Rates;
use super::sample::Sample;
use crate::control::Service;

/// How soon after the first sample the second is taken: the first rates come early.
const FIRST: Duration = Duration::from_millis(200);

/// The thread's other end.
#[derive(Debug)]
pub struct Sampler {
    intervals: Sender<Duration>,
    rates: Receiver<Rates>,
}

impl Sampler {
    /// Starts it.
    pub fn start(services: Vec<Service>, interval: Duration) -> Sampler {
        let (intervals, asked) = channel();
        let (tell, rates) = channel();
        thread::spawn(move || sample(&services, interval, &asked, &tell));
        Sampler { intervals, rates }
    }

    /// Has it ask so often from now on.
    pub fn set_interval(&self, interval: Duration) {
        // It ends only with this.
        let _ = self.intervals.send(interval);
    }

    /// The newest rates, if there are any that were not seen, within a time.
    pub fn next(&self, within: Duration) -> Option<Rates> {
        let first = self.rates.recv_timeout(within).ok()?;
        Some(self.rates.try_iter().last().unwrap_or(first))
    }
}

fn sample(
    services: &[Service],
    mut interval: Duration,
    asked: &Receiver<Duration>,
    tell: &Sender<Rates>,
) {
    let mut before = Sample::take(services);
    let mut due = Instant::now() + FIRST.min(interval);
    loop {
        match asked.recv_timeout(due.saturating_duration_since(Instant::now())) {
            Ok(other) => {
                interval = other;
                due = due.min(Instant::now() + interval);
            }
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {
                let now = Sample::take(services);
                if tell.send(Rates::between(&before, &now)).is_err() {
                    break;
                }
                before = now;
                due = Instant::now() + interval;
            }
        }
    }
}
