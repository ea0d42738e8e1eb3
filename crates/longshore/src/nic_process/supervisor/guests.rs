//! The gate of virtual machines, which goes on when the worker dies.

use std::time::Instant;

use super::Supervisor;
use super::kept::Kept;

impl Supervisor<'_> {
    /// Has virtual machines reach the worker.
    pub(super) fn start_guests(&mut self, now: Instant) {
        let (Some(guests), Some((_, link))) = (&mut self.guests, &self.worker.running) else {
            return;
        };
        let is_new = guests.running.is_some() && !self.has_guests;
        if !self.serves || !(is_new || guests.is_due(now)) {
            return;
        }
        match self.sockets.connect_guests(guests, link, now) {
            Ok(()) => self.has_guests = true,
            Err(error) => {
                guests.end(now);
                guests.put_off(now, &error);
            }
        }
    }
}

/// What the worker goes on without.
pub(super) fn helpers<'a>(
    control: &'a mut Kept,
    gate: &'a mut Option<Kept>,
    guests: &'a mut Option<Kept>,
) -> impl Iterator<Item = &'a mut Kept> {
    [control].into_iter().chain(gate).chain(guests)
}
