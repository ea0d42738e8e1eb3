//! Which of several NICs a frame is for, each of which has addresses of its own.

use super::steering::{Destination, Steer};
use crate::ethernet::{self, MacAddr};

/// The workers of MAC addresses. Frames to no station alone are each worker's; those for an address that no worker has are
/// [`Any`](Destination::Any)'s.
#[derive(Clone, Debug)]
pub struct Addresses {
    /// Sorted by address, which is compared as a number.
    entries: Box<[(u64, usize)]>,
    workers: usize,
}

/// Two workers are to have the same address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("two NICs are to have the address {0}")]
pub struct AddressTwice(pub MacAddr);

impl Addresses {
    /// Of so many workers, each address with the number of its worker.
    ///
    /// # Errors
    /// An address is there twice.
    ///
    /// # Panics
    /// If there is no such worker.
    pub fn new(
        workers: usize,
        of: impl IntoIterator<Item = (MacAddr, usize)>,
    ) -> Result<Addresses, AddressTwice> {
        let mut entries: Vec<(MacAddr, usize)> = of.into_iter().collect();
        entries.sort_by_key(|(mac, _)| mac.number());
        if let Some(two) = entries.windows(2).find(|two| two[0].0 == two[1].0) {
            return Err(AddressTwice(two[0].0));
        }
        let entries = entries.into_iter().map(|(mac, worker)| {
            assert!(worker < workers, "{mac} is of no worker");
            (mac.number(), worker)
        });
        Ok(Addresses {
            entries: entries.collect(),
            workers,
        })
    }

    /// The worker of an address, if it is one's.
    #[must_use]
    pub fn worker(&self, mac: MacAddr) -> Option<usize> {
        let entries = &self.entries;
        let place = entries.binary_search_by_key(&mac.number(), |(mac, _)| *mac);
        Some(entries[place.ok()?].1)
    }
}

impl Steer for Addresses {
    fn workers(&self) -> usize {
        self.workers
    }

    /// Needs the first six bytes of the frame only.
    #[inline]
    fn destination(&self, frame: &[u8]) -> Destination {
        match ethernet::destination(frame) {
            Some(mac) if mac.is_multicast() => Destination::All,
            Some(mac) => self
                .worker(mac)
                .map_or(Destination::Any, Destination::Worker),
            None => Destination::Any,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mac(last: u8) -> MacAddr {
        MacAddr([2, 0, 0, 0, 0, last])
    }

    #[test]
    fn a_frame_is_the_workers_that_has_its_destination() {
        let addresses = Addresses::new(3, [(mac(9), 2), (mac(1), 0), (mac(5), 2)]).unwrap();
        let destination = |to: MacAddr| addresses.destination(&[&to.0[..], &[0; 54]].concat());
        for (address, worker) in [(1, 0), (5, 2), (9, 2)] {
            assert_eq!(destination(mac(address)), Destination::Worker(worker));
        }
        assert_eq!(destination(mac(2)), Destination::Any, "it is no worker's");
        assert_eq!(destination(MacAddr::ZERO), Destination::Any);
        assert_eq!(destination(MacAddr::BROADCAST), Destination::All);
        assert_eq!(
            destination(MacAddr([0x33, 0x33, 0, 0, 0, 1])),
            Destination::All
        );
        assert_eq!(addresses.destination(&[2; 5]), Destination::Any);
        assert_eq!(addresses.workers(), 3);
    }

    #[test]
    fn an_address_has_one_worker() {
        let twice = Addresses::new(2, [(mac(1), 0), (mac(2), 0), (mac(1), 1)]);
        assert_eq!(twice.unwrap_err(), AddressTwice(mac(1)));
    }
}
