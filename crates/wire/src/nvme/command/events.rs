//! Asynchronous events (NVMe Base 2.0 §5.2, §5.27.1.8).

/// What an Asynchronous Event Request completes with: dword 0 of its completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AsyncEvent {
    /// The event's type: 0 error, 1 SMART/health, 2 notice, 6 I/O command specific, 7 vendor.
    pub kind: u8,
    /// What of that type.
    pub information: u8,
    /// The log page that says more, and that re-arms the event when it is read.
    pub log_page: u8,
}

impl AsyncEvent {
    /// Namespaces came, went or changed; the log page is the Changed Namespace List.
    pub const NAMESPACES_CHANGED: AsyncEvent = AsyncEvent {
        kind: 2,
        information: 0x00,
        log_page: 0x04,
    };
    /// The discovery log page changed.
    pub const DISCOVERY_CHANGED: AsyncEvent = AsyncEvent {
        kind: 2,
        information: 0xf0,
        log_page: 0x70,
    };

    /// From dword 0 of the completion.
    #[must_use]
    pub const fn from_dword(dword: u32) -> AsyncEvent {
        AsyncEvent {
            kind: dword as u8 & 0x07,
            information: (dword >> 8) as u8,
            log_page: (dword >> 16) as u8,
        }
    }

    /// Dword 0 of the completion.
    #[must_use]
    pub const fn to_dword(self) -> u32 {
        self.kind as u32 | (self.information as u32) << 8 | (self.log_page as u32) << 16
    }
}

/// Which notices a controller offers (OAES of Identify Controller) or a host wants (Asynchronous Event
/// Configuration).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct EventMask(pub u32);

impl EventMask {
    /// Namespaces came, went or changed.
    pub const NAMESPACES: EventMask = EventMask(1 << 8);
    /// The discovery log page changed.
    pub const DISCOVERY: EventMask = EventMask(1 << 31);

    /// Whether all of `other` is in it.
    #[must_use]
    pub const fn contains(self, other: EventMask) -> bool {
        self.0 & other.0 == other.0
    }

    /// Both.
    #[must_use]
    pub const fn union(self, other: EventMask) -> EventMask {
        EventMask(self.0 | other.0)
    }

    /// What is in both.
    #[must_use]
    pub const fn intersection(self, other: EventMask) -> EventMask {
        EventMask(self.0 & other.0)
    }
}
