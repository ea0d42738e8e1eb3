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
        let number = controller.id();
        controller.reset();
        let admin = self.open_mut(admin).expect("the host has just used it");
        for slot in requests {
            admin.finish(slot);
        }
        self.delete_queues(number, CloseReason::ControllerReset);
    }
}
