//! The rings of a function, and whose its contexts are.

use attachment::results::RxContextTag;
use nic::ring::ContextId;
use wire::FlowKey;

use crate::offload::Retired;

/// The rings of a function.
pub(crate) type Rings = driver::Function<Owner, Retired>;

/// Whose a context is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Owner {
    /// It makes the records of the connection with this index.
    Sender(u32),
    /// It opens the records of packets of this flow, which are reported with this tag.
    Receiver(FlowKey, RxContextTag),
    /// It places the data of this flow's PDUs.
    Pdus(FlowKey),
}

/// Contexts that one of these uses may have.
#[derive(Debug)]
pub(crate) struct Quota {
    left: u32,
}

impl Quota {
    pub(crate) fn new(contexts: u32) -> Quota {
        Quota { left: contexts }
    }

    /// Takes one, which `create` makes.
    pub(crate) fn take(&mut self, create: impl FnOnce() -> Option<ContextId>) -> Option<ContextId> {
        let left = self.left.checked_sub(1)?;
        let context = create()?;
        self.left = left;
        Some(context)
    }

    /// Gives one back.
    pub(crate) fn give(&mut self) {
        self.left += 1;
    }
}
