//! Which of several NICs a frame is for, each of which has addresses of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::steering::{Destination, Steer};
use crate::ethernet::{self, MacAddr};

/// The workers of MAC addresses. Multicast frames go to every worker; a frame for an address whose host is not there may be
/// [`Any`](Destination::Any) worker's.
///
/// Clones share what they know of which hosts are there.
#[derive(Clone, Debug)]
pub struct Addresses {
    /// Sorted by address, which is compared as a number.
    entries: Arc<[Entry]>,
    workers: usize,
}

#[derive(Debug)]
struct Entry {
    mac: u64,
    worker: usize,
    is_present: AtomicBool,
}

/// An address is given to two workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("two NICs are to have the address {0}")]
pub struct AddressTwice(pub MacAddr);

impl Addresses {
    /// Of so many workers, each address with the number of its worker. No host is there yet.
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
            Entry {
                mac: mac.number(),
                worker,
                is_present: AtomicBool::new(false),
            }
        });
        Ok(Addresses {
            entries: entries.collect(),
            workers,
        })
    }

    /// The worker of the host that is there with this address.
    #[must_use]
    pub fn worker(&self, mac: MacAddr) -> Option<usize> {
        let entry = self.entry(mac)?;
        // Frames are lost, as on a wire, around the moment of a change: nothing else depends on it.
        let is_present = entry.is_present.load(Ordering::Relaxed);
        is_present.then_some(entry.worker)
    }

    /// Says whether the host with an address is there from now on; nothing of an address that no worker has.
    pub fn set_present(&self, mac: MacAddr, is_present: bool) {
        if let Some(entry) = self.entry(mac) {
            // All workers read the line for each frame: it is written only if it changes.
            if entry.is_present.load(Ordering::Relaxed) != is_present {
                entry.is_present.store(is_present, Ordering::Relaxed);
            }
        }
    }

    fn entry(&self, mac: MacAddr) -> Option<&Entry> {
        let place = self
            .entries
            .binary_search_by_key(&mac.number(), |entry| entry.mac);
        Some(&self.entries[place.ok()?])
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
        for address in [1, 5, 9, 2] {
            addresses.set_present(mac(address), true);
        }
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
    fn a_frame_for_a_host_that_is_not_there_may_be_any_workers() {
        let addresses = Addresses::new(2, [(mac(1), 1)]).unwrap();
        let its = addresses.clone();
        let frame = [&mac(1).0[..], &[0; 54]].concat();
        assert_eq!(its.destination(&frame), Destination::Any);
        addresses.set_present(mac(1), true);
        assert_eq!(its.destination(&frame), Destination::Worker(1));
        addresses.set_present(mac(1), false);
        assert_eq!(its.destination(&frame), Destination::Any);
    }

    #[test]
    fn an_address_has_one_worker() {
        let twice = Addresses::new(2, [(mac(1), 0), (mac(2), 0), (mac(1), 1)]);
        assert_eq!(twice.unwrap_err(), AddressTwice(mac(1)));
    }
}
