//! The switch between functions and the wire: where a frame goes, by its destination MAC address.

use wire::ethernet::MacAddr;

/// A function of a NIC, in the order of attachment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FunctionId(pub u16);

/// Functions by MAC address.
#[derive(Debug, Default)]
pub(crate) struct Switch {
    /// Sorted by address, which is compared as a number.
    entries: Vec<(u64, FunctionId)>,
}

/// Where a frame goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Destination {
    Function(FunctionId),
    /// To the wire alone: no function has this address.
    Wire,
    /// Broadcast and multicast: to everyone but the sender.
    Everyone,
}

impl Switch {
    /// Adds a function. False when its address is taken or is not a unicast address.
    #[must_use]
    pub(crate) fn add(&mut self, mac: MacAddr, function: FunctionId) -> bool {
        match self.find(mac) {
            Err(place) if mac.is_unicast() && mac != MacAddr::ZERO => {
                self.entries.insert(place, (mac.number(), function));
                true
            }
            _ => false,
        }
    }

    /// Removes a function.
    pub(crate) fn remove(&mut self, function: FunctionId) {
        self.entries.retain(|(_, other)| *other != function);
    }

    pub(crate) fn destination(&self, mac: MacAddr) -> Destination {
        if !mac.is_unicast() {
            return Destination::Everyone;
        }
        match self.find(mac) {
            Ok(place) => Destination::Function(self.entries[place].1),
            Err(_) => Destination::Wire,
        }
    }

    fn find(&self, mac: MacAddr) -> Result<usize, usize> {
        self.entries
            .binary_search_by_key(&mac.number(), |(mac, _)| *mac)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forwards_by_address() {
        let mut switch = Switch::default();
        let (a, b) = (MacAddr([2, 0, 0, 0, 0, 1]), MacAddr([2, 0, 0, 0, 0, 2]));
        assert!(switch.add(b, FunctionId(1)));
        assert!(switch.add(a, FunctionId(0)));
        assert!(!switch.add(a, FunctionId(2)), "an address has one function");
        assert!(!switch.add(MacAddr::BROADCAST, FunctionId(2)));
        assert_eq!(switch.destination(a), Destination::Function(FunctionId(0)));
        assert_eq!(switch.destination(b), Destination::Function(FunctionId(1)));
        assert_eq!(
            switch.destination(MacAddr([2, 0, 0, 0, 0, 3])),
            Destination::Wire
        );
        assert_eq!(
            switch.destination(MacAddr::BROADCAST),
            Destination::Everyone
        );
        switch.remove(FunctionId(0));
        assert_eq!(switch.destination(a), Destination::Wire);
        assert!(switch.add(a, FunctionId(2)), "it is free again");
    }
}
