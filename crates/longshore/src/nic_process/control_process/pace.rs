//! How often a user may have the worker do something. A connection that asks for more waits in its own thread.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use attachment::{Rate, Request};

/// Requests per second of one user, and at once after a pause.
const PER_SECOND: u32 = 32_768;
/// Requests for connections that the worker could do in the time that mapping and unmapping takes.
const ATTACHMENT: u32 = 256;
/// Users who have asked lately are looked for when so many are known.
const MANY: usize = 1024;

/// What users have asked for.
#[derive(Clone, Debug, Default)]
pub struct Pace {
    by_uid: Arc<Mutex<HashMap<u32, Rate>>>,
}

impl Pace {
    /// Waits until it is this request's turn.
    pub fn wait(&self, uid: u32, request: &Request) {
        let wait = self.reserve(Instant::now(), uid, request);
        if !wait.is_zero() {
            std::thread::sleep(wait);
        }
    }

    /// How long it is until then.
    fn reserve(&self, now: Instant, uid: u32, request: &Request) -> Duration {
        let amount = match request {
            Request::Attach | Request::Memory => ATTACHMENT,
            _ => 1,
        };
        let by_uid = self.by_uid.lock();
        let mut by_uid = by_uid.unwrap_or_else(PoisonError::into_inner);
        if by_uid.len() >= MANY && !by_uid.contains_key(&uid) {
            by_uid.retain(|_, rate| !rate.is_full(now));
        }
        let rate = by_uid.entry(uid);
        let rate = rate.or_insert_with(|| Rate::new(PER_SECOND, PER_SECOND));
        rate.reserve(now, amount)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_that_attaches_without_end_waits_and_others_do_not() {
        let (pace, now) = (Pace::default(), Instant::now());
        let waits = |uid, count: u32| {
            let waits = (0..count).map(|_| pace.reserve(now, uid, &Request::Attach));
            waits.max().unwrap()
        };
        let at_once = PER_SECOND / ATTACHMENT;
        assert_eq!(waits(1000, at_once), Duration::ZERO);
        let wait = waits(1000, 2 * at_once);
        assert!((1.99..2.01).contains(&wait.as_secs_f64()), "{wait:?}");
        assert_eq!(waits(1001, at_once), Duration::ZERO);
    }

    #[test]
    fn users_that_ask_no_more_are_forgotten() {
        let pace = Pace::default();
        let mut now = Instant::now();
        for uid in 0..10 * MANY as u32 {
            pace.reserve(now, uid, &Request::Attach);
            now += Duration::from_millis(10);
        }
        assert!(pace.by_uid.lock().unwrap().len() <= MANY);
    }
}
