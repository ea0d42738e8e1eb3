//! What one core does of a target, also at its end.

use std::time::Instant;

use anyhow::Result;
use host::nvme::target as glue;

use crate::attach::Attached;
use crate::shards::Shard;

/// What one core does of the target.
pub(super) struct Part {
    pub(super) target: glue::Target,
    stage: Stage,
    /// Whether it has ended what belongs to the stage.
    is_done: bool,
}

/// How far the target is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Serving,
    /// Commands under way are finished, and no host is accepted.
    Finishing,
    /// Connections are closed.
    Closing,
}

impl Part {
    /// Of a target that listens.
    pub(super) fn new(target: glue::Target) -> Part {
        Part {
            target,
            stage: Stage::Serving,
            is_done: false,
        }
    }

    /// Begins what belongs to a stage.
    pub(super) fn begin(&mut self, stage: Stage, attached: &mut Attached) {
        let stack = attached.runtime.stack();
        match stage {
            Stage::Serving => {}
            Stage::Finishing => self.target.close_listeners(stack),
            Stage::Closing => self.target.close_all(Instant::now(), stack),
        }
        (self.stage, self.is_done) = (stage, false);
    }

    fn has_ended_stage(&self, attached: &mut Attached) -> bool {
        match self.stage {
            Stage::Serving => false,
            Stage::Finishing => self.target.is_idle(),
            Stage::Closing => {
                self.target.is_idle() && attached.runtime.stack().sockets().next().is_none()
            }
        }
    }
}

impl Shard for Part {
    fn poll(&mut self, now: Instant, attached: &mut Attached) -> Result<bool> {
        let stack = attached.runtime.stack();
        let mut progress = false;
        while let Some(event) = stack.poll_event() {
            progress = true;
            self.target.handle_event(now, stack, &event);
        }
        progress |= self.target.poll(now, stack);
        self.is_done = self.has_ended_stage(attached);
        Ok(progress)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.target.poll_timeout()
    }

    fn is_done(&self) -> bool {
        self.is_done
    }
}
