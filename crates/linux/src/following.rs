//! Connections that the device follows in the receiving direction, and what it asks about them.

use std::collections::HashMap;
use std::ops::{Deref, DerefMut};

use attachment::{Asking, Questions};
use driver::Place;
use nic::ring::ContextId;
use wire::{FlowKey, SeqNum};

use crate::contexts::Rings;

/// How the device follows the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Following {
    /// Not at all.
    No,
    /// It will from when Linux has acknowledged this: before, it is not known what Linux has queued.
    From(SeqNum),
    /// Not until the program has read on.
    Paused,
    /// By this context.
    By(ContextId),
}

/// A connection that the device can follow.
pub(crate) trait Followed {
    /// How it follows, and what it has asked; with the words of the connection's slot that questions go through.
    fn parts(&mut self) -> (&mut Following, &mut Asking, Questions<'_>);
}

/// Such connections, by the flow of the packets that come.
#[derive(Debug)]
pub(crate) struct Flows<F> {
    flows: HashMap<FlowKey, F>,
    /// Those whose device asked something.
    asking: Vec<FlowKey>,
}

impl<F> Default for Flows<F> {
    fn default() -> Flows<F> {
        Flows {
            flows: HashMap::new(),
            asking: Vec::new(),
        }
    }
}

impl<F> Deref for Flows<F> {
    type Target = HashMap<FlowKey, F>;

    fn deref(&self) -> &HashMap<FlowKey, F> {
        &self.flows
    }
}

impl<F> DerefMut for Flows<F> {
    fn deref_mut(&mut self) -> &mut HashMap<FlowKey, F> {
        &mut self.flows
    }
}

impl<F: Followed> Flows<F> {
    /// Whether it is by this context that the device follows a connection.
    pub(crate) fn is_followed_by(&mut self, context: ContextId, key: FlowKey) -> bool {
        let flow = self.flows.get_mut(&key);
        flow.is_some_and(|flow| *flow.parts().0 == Following::By(context))
    }

    /// The device asks whether a message begins at `tcpsn` (`l5o_resync_rx_req`).
    pub(crate) fn resync_request(&mut self, context: ContextId, key: FlowKey, tcpsn: SeqNum) {
        let Some(flow) = self.flows.get_mut(&key) else {
            return;
        };
        let (following, asking, questions) = flow.parts();
        if *following == Following::By(context) {
            asking.ask(questions, tcpsn);
            if !self.asking.contains(&key) {
                self.asking.push(key);
            }
        }
    }

    /// Passes the library's answers on.
    pub(crate) fn take_answers(&mut self, rings: &mut Rings) {
        let Flows { flows, asking } = self;
        asking.retain(|key| {
            let Some(flow) = flows.get_mut(key) else {
                return false;
            };
            let (following, asking, questions) = flow.parts();
            let Following::By(context) = *following else {
                asking.forget();
                return false;
            };
            if let Some((tcpsn, index)) = asking.poll_answer(questions) {
                rings.answer(context, Place { tcpsn, inner: None }, index);
            }
            asking.asks()
        });
    }

    /// Destroys the context that follows a connection; gives whether there was one.
    pub(crate) fn stop_following(&mut self, key: FlowKey, rings: &mut Rings) -> bool {
        let Some(flow) = self.flows.get_mut(&key) else {
            return false;
        };
        let (following, asking, _) = flow.parts();
        let Following::By(context) = *following else {
            return false;
        };
        *following = Following::No;
        asking.forget();
        rings.destroy(context);
        true
    }
}
