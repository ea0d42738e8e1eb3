//! Session tickets (RFC 5077, RFC 8446 §4.6.1): what a server must know to resume a session, encrypted for itself, which its client keeps.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_lc_rs::aead::{AES_256_GCM, Aad, NONCE_LEN, Nonce, RandomizedNonceKey};
use aws_lc_rs::rand;
use l5p::crypto::wipe;
use rustls::Error;
use rustls::server::ProducesTickets;

/// How long tickets are made with a key; so long it is known afterwards.
const PERIOD: Duration = Duration::from_secs(6 * 3600);
const NAME_LEN: usize = 16;
const KEY_LEN: usize = 32;

/// A key, as one process gives it to another.
#[derive(Clone, PartialEq, Eq)]
pub struct TicketKey {
    /// What tickets name it by.
    pub name: [u8; NAME_LEN],
    /// Of AES-256-GCM.
    pub secret: [u8; KEY_LEN],
    /// When it was made, in seconds since 1970.
    pub since: u64,
}

/// The keys of a server's tickets. A new one is made every six hours; the last two are known, and no others: what was resumed by older tickets can't be read by
/// who takes them.
#[derive(Debug)]
pub struct TicketKeys(Mutex<Keys>);

#[derive(Debug)]
struct Keys {
    current: TicketKey,
    previous: Option<TicketKey>,
}

impl TicketKeys {
    /// With a key that is drawn at random.
    ///
    /// # Errors
    /// The system gives no random bytes.
    pub fn new() -> Result<TicketKeys, Error> {
        TicketKeys::at(now(), Vec::new())
    }

    /// With the keys of another process, of which the first one is its current one, as [`keys`](Self::keys) gives them.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn of(keys: Vec<TicketKey>) -> Result<TicketKeys, Error> {
        TicketKeys::at(now(), keys)
    }

    fn at(now: u64, keys: Vec<TicketKey>) -> Result<TicketKeys, Error> {
        let mut given = keys.into_iter();
        let current = match given.next() {
            Some(key) => key,
            None => TicketKey::random(now)?,
        };
        let previous = given.next();
        Ok(TicketKeys(Mutex::new(Keys { current, previous })))
    }

    /// All keys that are known, the current one first.
    pub fn keys(&self) -> Vec<TicketKey> {
        let keys = self.lock(now());
        let all = std::iter::once(&keys.current).chain(&keys.previous);
        all.cloned().collect()
    }

    fn lock(&self, now: u64) -> MutexGuard<'_, Keys> {
        let mut keys = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        keys.rotate(now);
        keys
    }

    fn encrypt_at(&self, now: u64, plain: &[u8]) -> Option<Vec<u8>> {
        let (name, cipher) = {
            let keys = self.lock(now);
            (keys.current.name, keys.current.cipher()?)
        };
        let mut content = plain.to_vec();
        let nonce = cipher
            .seal_in_place_append_tag(Aad::from(name), &mut content)
            .ok()?;
        Some([&name, &nonce.as_ref()[..], &content].concat())
    }

    fn decrypt_at(&self, now: u64, ticket: &[u8]) -> Option<Vec<u8>> {
        let (name, rest) = ticket.split_first_chunk::<NAME_LEN>()?;
        let (nonce, content) = rest.split_first_chunk::<NONCE_LEN>()?;
        let cipher = self.lock(now).named(name)?.cipher()?;
        let mut content = content.to_vec();
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let plain = cipher.open_in_place(nonce, Aad::from(*name), &mut content);
        let len = plain.ok()?.len();
        content.truncate(len);
        Some(content)
    }
}

impl ProducesTickets for TicketKeys {
    fn enabled(&self) -> bool {
        true
    }

    fn lifetime(&self) -> u32 {
        // Of one that is made just before the next key.
        PERIOD.as_secs() as u32
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        self.encrypt_at(now(), plain)
    }

    fn decrypt(&self, ticket: &[u8]) -> Option<Vec<u8>> {
        self.decrypt_at(now(), ticket)
    }
}

impl Keys {
    /// Follows the time. Without random bytes the current key stays for now.
    fn rotate(&mut self, now: u64) {
        let is_over = |key: &TicketKey, periods: u64| now >= key.since + periods * PERIOD.as_secs();
        if is_over(&self.current, 1)
            && let Ok(next) = TicketKey::random(now)
        {
            self.previous = Some(std::mem::replace(&mut self.current, next));
        }
        if self.previous.as_ref().is_some_and(|key| is_over(key, 2)) {
            // Dropped where it is: what is taken out leaves its bytes behind.
            self.previous = None;
        }
    }

    fn named(&self, name: &[u8; NAME_LEN]) -> Option<&TicketKey> {
        let mut all = std::iter::once(&self.current).chain(&self.previous);
        all.find(|key| key.name == *name)
    }
}

impl TicketKey {
    fn random(since: u64) -> Result<TicketKey, Error> {
        let mut key = TicketKey {
            name: [0; NAME_LEN],
            secret: [0; KEY_LEN],
            since,
        };
        let filled = rand::fill(&mut key.name).and_then(|()| rand::fill(&mut key.secret));
        filled.map_err(|_| Error::FailedToGetRandomBytes)?;
        Ok(key)
    }

    fn cipher(&self) -> Option<RandomizedNonceKey> {
        RandomizedNonceKey::new(&AES_256_GCM, &self.secret).ok()
    }
}

impl Drop for TicketKey {
    fn drop(&mut self) {
        wipe(&mut self.secret);
    }
}

impl fmt::Debug for TicketKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TicketKey(since {}, secret)", self.since)
    }
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap_or_default().as_secs()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = 3600;

    fn keys() -> TicketKeys {
        TicketKeys::at(0, Vec::new()).unwrap()
    }

    #[test]
    fn a_ticket_is_good_for_six_hours_at_least_and_for_twelve_at_most() {
        let keys = keys();
        let early = keys.encrypt_at(0, b"session").unwrap();
        let late = keys.encrypt_at(6 * HOUR - 1, b"session").unwrap();
        for (ticket, at, is_good) in [
            (&early, 0, true),
            (&early, 12 * HOUR - 1, true),
            (&late, 12 * HOUR - 1, true),
            (&early, 12 * HOUR, false),
        ] {
            let opened = keys.decrypt_at(at, ticket);
            assert_eq!(
                opened.as_deref(),
                is_good.then_some(&b"session"[..]),
                "{at}"
            );
        }
    }

    #[test]
    fn tickets_of_a_process_are_good_in_the_one_that_has_its_keys() {
        let first = keys();
        let old = first.encrypt_at(HOUR, b"old").unwrap();
        let new = first.encrypt_at(7 * HOUR, b"new").unwrap();
        let known = {
            let keys = first.lock(7 * HOUR);
            vec![keys.current.clone(), keys.previous.clone().unwrap()]
        };
        let second = TicketKeys::at(8 * HOUR, known).unwrap();
        assert_eq!(second.decrypt_at(8 * HOUR, &old).unwrap(), b"old");
        assert_eq!(second.decrypt_at(8 * HOUR, &new).unwrap(), b"new");
        let back = second.encrypt_at(8 * HOUR, b"back").unwrap();
        assert_eq!(first.decrypt_at(8 * HOUR, &back).unwrap(), b"back");
        assert_eq!(keys().decrypt_at(HOUR, &old), None);
    }

    #[test]
    fn no_other_bytes_are_a_ticket() {
        let keys = keys();
        let ticket = keys.encrypt_at(0, b"session").unwrap();
        for len in 0..ticket.len() {
            assert_eq!(keys.decrypt_at(0, &ticket[..len]), None);
        }
        for at in 0..ticket.len() {
            let mut changed = ticket.clone();
            changed[at] ^= 1;
            assert_eq!(keys.decrypt_at(0, &changed), None, "byte {at}");
        }
        assert_ne!(ticket, keys.encrypt_at(0, b"session").unwrap());
    }
}
