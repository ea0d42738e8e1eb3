//! Contexts of what is sent, until it is acknowledged.

use std::collections::VecDeque;

use nic::ring::ContextId;
use wire::SeqNum;

use crate::driver::Driver;

/// A session's transmit contexts.
#[derive(Debug, Default)]
pub(crate) struct TransmitContexts {
    /// The context that messages are framed for from now on.
    pub context: Option<ContextId>,
    /// Contexts of earlier messages, each with the position after its last one.
    former: VecDeque<(ContextId, SeqNum)>,
}

impl TransmitContexts {
    /// Whether there are contexts of earlier messages.
    #[inline]
    pub fn has_former(&self) -> bool {
        !self.former.is_empty()
    }

    /// How many there are.
    pub fn former(&self) -> usize {
        self.former.len()
    }

    /// What is framed from `end` on is for no context: the present one stays until what was framed for it is acknowledged. Answers whether
    /// there was one.
    pub fn leave(&mut self, end: SeqNum) -> bool {
        let left = self.context.take();
        self.former.extend(left.map(|context| (context, end)));
        left.is_some()
    }

    /// The peer has acknowledged everything before `una`: contexts go whose messages are all acknowledged.
    #[inline]
    pub fn acknowledged(&mut self, una: SeqNum, driver: &mut Driver) {
        while let Some(&(context, end)) = self.former.front()
            && end.at_or_before(una)
        {
            driver.l5o_destroy(context);
            self.former.pop_front();
        }
    }

    /// Calls `each` with every context that what is not acknowledged was framed for.
    pub fn for_each(&self, each: &mut dyn FnMut(ContextId)) {
        let former = self.former.iter().map(|(context, _)| *context);
        former.chain(self.context).for_each(each);
    }

    /// Gives them all up.
    pub fn dismantle(&mut self, driver: &mut Driver) {
        self.leave(SeqNum(0));
        for (context, _) in self.former.drain(..) {
            driver.l5o_destroy(context);
        }
    }
}
