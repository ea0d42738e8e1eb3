//! What paths take, by destination, as routers have told (RFC 1191 §6.3, RFC 8201 §5.2): the next connection to there knows it.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// How long what was told counts (RFC 1191 §6.3, RFC 8201 §4).
const GOOD_FOR: Duration = Duration::from_secs(600);
/// The least that is remembered: each can forge what routers tell of a path of its own, and others may be behind the same address. Linux
/// goes no lower than packets of 552 bytes.
pub(crate) const LEAST: u16 = 512;
/// Destinations that are remembered; then the oldest goes.
const MOST: usize = 256;

/// Path MTUs that are less than the link's. Few paths have one, so they are in a list, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct PathMtus(VecDeque<Known>);

#[derive(Debug)]
struct Known {
    destination: IpAddr,
    /// Bytes of TCP payload and options.
    mss: u16,
    until: Instant,
}

impl PathMtus {
    /// A router has told of a connection's path, which the connection believes. That it takes more than is known is no news (RFC 8201 §4).
    pub fn note(&mut self, now: Instant, destination: IpAddr, mss: u16) {
        self.forget(now);
        if self.mss(now, destination).is_some_and(|known| known < mss) {
            return;
        }
        self.0.retain(|known| known.destination != destination);
        if self.0.len() == MOST {
            self.0.pop_front();
        }
        let until = now + GOOD_FOR;
        self.0.push_back(Known {
            destination,
            mss: mss.max(LEAST),
            until,
        });
    }

    /// Bytes of TCP payload and options that packets to there take, if that is less than the link takes.
    #[inline]
    pub fn mss(&self, now: Instant, destination: IpAddr) -> Option<u16> {
        let mut good = self.0.iter().filter(|known| known.until > now);
        let known = good.find(|known| known.destination == destination)?;
        Some(known.mss)
    }

    fn forget(&mut self, now: Instant) {
        while self.0.front().is_some_and(|known| known.until <= now) {
            self.0.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn address(n: u32) -> IpAddr {
        Ipv4Addr::from_bits(n).into()
    }

    #[test]
    fn what_a_path_takes_counts_for_ten_minutes_since_it_was_told_last() {
        let (mut mtus, now) = (PathMtus::default(), Instant::now());
        mtus.note(now, address(1), 1000);
        let later = now + GOOD_FOR / 2;
        assert_eq!(mtus.mss(later, address(1)), Some(1000));
        assert_eq!(mtus.mss(later, address(2)), None);
        mtus.note(later, address(1), 600);
        // What was told late, or by a router farther on.
        mtus.note(later, address(1), 900);
        assert_eq!(mtus.mss(now + GOOD_FOR, address(1)), Some(600));
        assert_eq!(mtus.mss(later + GOOD_FOR, address(1)), None);
    }

    #[test]
    fn what_one_peer_has_routers_say_leaves_others_there_packets_of_use() {
        let (mut mtus, now) = (PathMtus::default(), Instant::now());
        mtus.note(now, address(1), 64);
        assert_eq!(mtus.mss(now, address(1)), Some(LEAST));
    }

    #[test]
    fn the_oldest_of_many_is_forgotten() {
        let (mut mtus, now) = (PathMtus::default(), Instant::now());
        for n in 0..=MOST as u32 {
            mtus.note(now, address(n), 1000);
        }
        assert_eq!(mtus.mss(now, address(0)), None);
        assert_eq!(mtus.mss(now, address(1)), Some(1000));
    }
}
