//! How often a user may have the worker do something. A connection that asks for more waits in its own thread.

use std::collections::HashMap;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use attachment::{Rate, Request};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::admission::MOST_OF_ONE;

/// Files of one user that are mapped per second. After a restart all processes of a server attach again at once, and their other calls wait meanwhile.
const FILES_PER_SECOND: u32 = 128;
const FILES_AT_ONCE: u32 = MOST_OF_ONE as u32;
/// Other requests per second, and at once after a pause.
const PER_SECOND: u32 = 32_768;
/// Users who have asked lately are looked for when so many are known.
const MANY: usize = 1024;

/// What users have asked for.
#[derive(Clone, Debug, Default)]
pub struct Pace {
    by_uid: Arc<Mutex<HashMap<u32, Rates>>>,
}

#[derive(Debug)]
struct Rates {
    files: Rate,
    others: Rate,
}

impl Pace {
    /// Waits until it is this request's turn. False if its client has hung up before: others have its turn then.
    ///
    /// # Errors
    /// What the system gives.
    pub fn wait(&self, uid: u32, request: &Request, client: BorrowedFd<'_>) -> Result<bool, Errno> {
        let turn = Instant::now() + self.reserve(Instant::now(), uid, request);
        let mut client = [PollFd::from_borrowed_fd(client, PollFlags::empty())];
        loop {
            let left = turn.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(true);
            }
            let left = Timespec::try_from(left).map_err(|_| Errno::INVAL)?;
            match poll(&mut client, Some(&left)) {
                Ok(0) | Err(Errno::INTR) => {}
                Ok(_) => {
                    self.cancel(uid, request);
                    return Ok(false);
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// How long it is until then.
    fn reserve(&self, now: Instant, uid: u32, request: &Request) -> Duration {
        let mut by_uid = self.lock();
        if by_uid.len() >= MANY && !by_uid.contains_key(&uid) {
            by_uid.retain(|_, rates| !rates.are_full(now));
        }
        let rates = by_uid.entry(uid).or_insert_with(Rates::new);
        rates.of(request).reserve(now, 1)
    }

    fn cancel(&self, uid: u32, request: &Request) {
        if let Some(rates) = self.lock().get_mut(&uid) {
            rates.of(request).cancel(1);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u32, Rates>> {
        self.by_uid.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Rates {
    fn new() -> Rates {
        Rates {
            files: Rate::new(FILES_PER_SECOND, FILES_AT_ONCE),
            others: Rate::new(PER_SECOND, PER_SECOND),
        }
    }

    fn of(&mut self, request: &Request) -> &mut Rate {
        match request {
            Request::Attach | Request::Memory => &mut self.files,
            _ => &mut self.others,
        }
    }

    fn are_full(&self, now: Instant) -> bool {
        self.files.is_full(now) && self.others.is_full(now)
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    use super::*;

    const RELEASE: Request = Request::Release {
        slot: attachment::SlotId {
            slab: 0,
            index: 0,
            generation: 1,
        },
        cookie: 0,
    };

    #[test]
    fn a_user_that_attaches_without_end_waits_for_that_only_and_others_do_not() {
        let (pace, now) = (Pace::default(), Instant::now());
        let waits = |uid, count: u32| {
            let waits = (0..count).map(|_| pace.reserve(now, uid, &Request::Attach));
            waits.max().unwrap()
        };
        assert_eq!(
            waits(1000, 504),
            Duration::ZERO,
            "as many as it has connections"
        );
        let wait = waits(1000, 2 * FILES_PER_SECOND);
        assert!((1.99..2.01).contains(&wait.as_secs_f64()), "{wait:?}");
        assert_eq!(pace.reserve(now, 1000, &RELEASE), Duration::ZERO);
        assert_eq!(waits(1001, 504), Duration::ZERO);
    }

    #[test]
    fn clients_that_hang_up_leave_their_turns_to_others() {
        let pace = Pace::default();
        let next = || pace.reserve(Instant::now(), 1000, &Request::Attach);
        while next() < Duration::from_secs(60) {}
        for _ in 0..100 {
            let (ours, theirs) = UnixStream::pair().unwrap();
            drop(theirs);
            assert_eq!(pace.wait(1000, &Request::Attach, ours.as_fd()), Ok(false));
        }
        let wait = next();
        assert!(wait < Duration::from_millis(60_100), "{wait:?}");
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
