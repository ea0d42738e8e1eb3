//! Controller Reset: a host clears CC.EN (Base 2.0c §3.1.3.5, §3.7.2).

use super::action::CloseReason;
use super::ids::ControllerRef;
use super::machine::Target;

impl Target {
    /// Deletes the I/O queues, gives up what waits for events, and brings features back to their defaults. The admin queue stays, and the
    /// keep-alive time-out, which Connect set.
    pub(super) fn reset_controller(&mut self, id: ControllerRef) {
        let controller = self.controller_mut(id).expect("its queue is open");
        let (admin, requests) = (controller.admin, controller.events.take_requests());
        let queues: Vec<_> = controller.queues.iter().flatten().copied().collect();
        let admin = self.open_mut(admin).expect("the host has just used it");
        for slot in requests {
            admin.finish(slot);
        }
        for &queue in &queues {
            self.close(queue, CloseReason::ControllerReset);
        }
        let controller = self.controller_mut(id).expect("its queue is open");
        controller.reset(queues);
    }

    /// Whether stores still work on commands of queues that a reset has deleted, or that the host has closed before. The controller is not idle before, which CSTS.RDY tells.
    pub(super) fn is_resetting(&mut self, id: ControllerRef) -> bool {
        let (controllers, connections) = (&mut self.controllers, &self.connections);
        let controller = controllers.get_mut(id.index, id.generation);
        let Some(controller) = controller.filter(|controller| !controller.leaving.is_empty())
        else {
            return false;
        };
        let is_there = |index, generation| connections.get(index, generation).is_some();
        controller
            .leaving
            .retain(|queue| is_there(queue.index, queue.generation));
        !controller.leaving.is_empty()
    }
}
