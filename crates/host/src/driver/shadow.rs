//! The driver's shadows of the NIC's contexts (Autonomous NIC offloads §4.2), and the ids they go by.

use std::collections::VecDeque;

use l5p::{ContextTag, Layers};
use nic::ring::{ContextId, Processed};
use wire::SeqNum;

use crate::SocketId;

/// What the driver knows of one of the NIC's contexts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shadow {
    /// Whose packets it is for.
    pub socket: SocketId,
    pub layers: LayersInfo,
    /// What the bytes are marked with that a receive context replaces.
    pub tag: Option<ContextTag>,
    /// Where the NIC will be once it has done all that was posted; `None` when an error left that unknown.
    pub expected: Option<SeqNum>,
    /// End of what was ever posted, from the context's start on without a hole.
    pub frontier: SeqNum,
    /// The NIC refused it or gave it up: nothing may be posted with it.
    pub failed: bool,
    /// The NIC was reset while it had the context: what it had sent by then, and written back, nobody knows.
    pub lost: bool,
    /// Errors close to one another, the last one with this much of the stream posted.
    pub errors: u8,
    pub erred_at: SeqNum,
    /// The NIC has been told to destroy it. What it has transformed before may still come.
    pub destroyed: bool,
}

/// What matters of a context's protocols to whoever sends and receives through it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LayersInfo {
    /// The NIC puts other bytes in the place of those that it is given: it encrypts.
    pub replaces: bool,
    /// Bytes at the end of each outermost message that the NIC makes in any case.
    pub check_len: u32,
    /// Bytes of a message's middle can be sent again without its beginning.
    pub is_seekable: bool,
    /// Protocols, one inside the other.
    depth: u8,
    /// The innermost one replaces nothing, and checks.
    checks: bool,
}

impl LayersInfo {
    pub fn of(layers: &Layers) -> Self {
        let mut infos = layers.infos();
        let (outermost, innermost) = (infos.next(), layers.infos().next_back());
        Self {
            replaces: outermost.is_some_and(|info| info.replaces),
            check_len: outermost.map_or(0, |info| info.check_len),
            is_seekable: layers.is_seekable(),
            depth: layers.ids().len() as u8,
            checks: innermost.is_some_and(|info| !info.replaces),
        }
    }

    /// Whether the innermost protocol, one that replaces nothing, has checked all of a packet.
    #[inline]
    pub fn has_checked(&self, processed: Processed) -> bool {
        self.checks && processed.by(usize::from(self.depth) - 1)
    }
}

impl Shadow {
    /// Whether it has one protocol inside another.
    pub fn is_nested(&self) -> bool {
        self.layers.depth > 1
    }

    /// Counts an error. Answers whether the context must be given up: errors do not end.
    pub fn count_error(&mut self) -> bool {
        if self.erred_at.distance_to(self.frontier) > FORGIVEN_AFTER {
            self.errors = 0;
        }
        self.erred_at = self.frontier;
        self.errors = self.errors.saturating_add(1);
        self.errors >= MAX_ERRORS
    }
}

/// Errors after which a context is given up for good.
const MAX_ERRORS: u8 = 8;
/// Bytes without an error after which former ones no longer count.
const FORGIVEN_AFTER: u32 = 1 << 20;

/// The function's contexts.
///
/// An id that was destroyed rests until the NIC has done the destruction and everything that it had received before
/// was taken off the receive rings, so that no packet is taken for one of the id's next owner.
#[derive(Debug)]
pub(crate) struct Contexts {
    shadows: Vec<Option<Shadow>>,
    quota: u32,
    free: Vec<u32>,
    resting: VecDeque<(u32, u64)>,
}

impl Contexts {
    pub fn new(quota: u32) -> Self {
        Self {
            shadows: Vec::new(),
            quota,
            free: Vec::new(),
            resting: VecDeque::new(),
        }
    }

    /// Takes an id, if the quota allows.
    pub fn allocate(&mut self, shadow: Shadow) -> Option<ContextId> {
        let index = match self.free.pop() {
            Some(index) => index,
            None if (self.shadows.len() as u64) < u64::from(self.quota) => {
                self.shadows.push(None);
                self.shadows.len() as u32 - 1
            }
            None => return None,
        };
        self.shadows[index as usize] = Some(shadow);
        Some(ContextId(index))
    }

    #[inline]
    pub fn get(&self, id: ContextId) -> Option<&Shadow> {
        self.get_received(id).filter(|shadow| !shadow.destroyed)
    }

    #[inline]
    pub fn get_mut(&mut self, id: ContextId) -> Option<&mut Shadow> {
        let shadow = self.shadows.get_mut(id.0 as usize)?.as_mut();
        shadow.filter(|shadow| !shadow.destroyed)
    }

    /// The NIC has none of them any more.
    pub fn fail_all(&mut self) {
        for shadow in self.shadows.iter_mut().flatten() {
            shadow.failed = true;
            shadow.lost = true;
            shadow.expected = None;
        }
    }

    /// The context that a received packet names, which may have been destroyed since.
    #[inline]
    pub fn get_received(&self, id: ContextId) -> Option<&Shadow> {
        self.shadows.get(id.0 as usize)?.as_ref()
    }

    /// Gives an id up; its destruction is complete when the send ring has reached `posted`.
    pub fn release(&mut self, id: ContextId, posted: u64) {
        if let Some(shadow) = self.get_mut(id) {
            shadow.destroyed = true;
            self.resting.push_back((id.0, posted));
        }
    }

    /// To be called when the receive rings were found empty, with the send ring's completions as of before that.
    pub fn wake(&mut self, completed: u64) {
        while let Some(&(index, posted)) = self.resting.front()
            && posted <= completed
        {
            self.shadows[index as usize] = None;
            self.free.push(index);
            self.resting.pop_front();
        }
    }
}

#[cfg(test)]
impl Contexts {
    /// Every context.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Shadow> {
        self.shadows.iter_mut().flatten()
    }
}
