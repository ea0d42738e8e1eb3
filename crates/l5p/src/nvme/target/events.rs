//! Asynchronous events of a controller (Base 2.0c §5.2).

use wire::nvme::command::{AsyncEvent, EventMask};

/// Requests for events that may be outstanding (AERL, counted from one).
pub(super) const MAX_REQUESTS: usize = 4;

/// What a controller has to tell, and to whom.
#[derive(Debug, Default)]
pub(super) struct Events {
    /// What the host wants to hear of.
    pub enabled: EventMask,
    /// What has happened and was not reported.
    pending: EventMask,
    /// What was reported, and is not reported again before the log page is read.
    masked: EventMask,
    /// Namespaces that changed since the host last read the page, ascending.
    changed: Vec<u32>,
    /// Commands of the admin queue that wait, the oldest first.
    requests: Vec<u16>,
}

impl Events {
    /// A command waits for an event. False: too many do.
    pub(super) fn park(&mut self, slot: u16) -> bool {
        let room = self.requests.len() < MAX_REQUESTS;
        if room {
            self.requests.push(slot);
        }
        room
    }

    /// A command waits no more. False: it did not.
    pub(super) fn unpark(&mut self, slot: u16) -> bool {
        let before = self.requests.len();
        self.requests.retain(|&waiting| waiting != slot);
        self.requests.len() < before
    }

    /// All commands that wait, which do so no more.
    pub(super) fn take_requests(&mut self) -> Vec<u16> {
        std::mem::take(&mut self.requests)
    }

    /// A namespace came, went or changed.
    pub(super) fn namespace_changed(&mut self, nsid: u32) {
        if let Err(at) = self.changed.binary_search(&nsid) {
            self.changed.insert(at, nsid);
        }
        self.pending = self.pending.union(EventMask::NAMESPACES);
    }

    /// The discovery log changed.
    pub(super) fn discovery_changed(&mut self) {
        self.pending = self.pending.union(EventMask::DISCOVERY);
    }

    /// The next event to tell, and the command that tells it.
    pub(super) fn next(&mut self) -> Option<(u16, AsyncEvent)> {
        const KINDS: [(EventMask, AsyncEvent); 2] = [
            (EventMask::NAMESPACES, AsyncEvent::NAMESPACES_CHANGED),
            (EventMask::DISCOVERY, AsyncEvent::DISCOVERY_CHANGED),
        ];
        let is_due = |mask: EventMask| {
            self.pending.contains(mask)
                && self.enabled.contains(mask)
                && !self.masked.contains(mask)
        };
        let (mask, event) = *KINDS.iter().find(|(mask, _)| is_due(*mask))?;
        if self.requests.is_empty() {
            return None;
        }
        self.pending = without(self.pending, mask);
        self.masked = self.masked.union(mask);
        Some((self.requests.remove(0), event))
    }

    /// The host reads the page of changed namespaces.
    pub(super) fn read_changed(&mut self, retain: bool) -> Vec<u32> {
        if retain {
            return self.changed.clone();
        }
        self.rearm(EventMask::NAMESPACES);
        std::mem::take(&mut self.changed)
    }

    /// The host reads the discovery log.
    pub(super) fn read_discovery(&mut self, retain: bool) {
        if !retain {
            self.rearm(EventMask::DISCOVERY);
        }
    }

    /// The page says all that has happened so far: what happens next is reported again.
    fn rearm(&mut self, mask: EventMask) {
        self.pending = without(self.pending, mask);
        self.masked = without(self.masked, mask);
    }
}

fn without(set: EventMask, mask: EventMask) -> EventMask {
    EventMask(set.0 & !mask.0)
}
