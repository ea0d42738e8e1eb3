//! Running the stack: sleep, counters, cycles.

use std::time::Instant;

use crate::Meter;
use crate::counters::MEMORY_GAUGES;
use crate::stack::Stack;

impl Stack {
    /// Whether the NIC slept when something was posted to it, since this was asked last: then it
    /// is to be woken.
    pub fn take_doorbell(&mut self) -> bool {
        self.transport().device.driver.take_wakeup()
    }

    /// Whether the NIC has not done yet all that was posted to it.
    pub fn has_posted(&mut self) -> bool {
        let driver = &mut self.transport().device.driver;
        driver.completed() < driver.posted()
    }

    /// Announces to the NIC that the host is about to sleep, so that it is woken by what comes. False when something has
    /// come meanwhile: then it must poll instead.
    pub fn prepare_sleep(&mut self) -> bool {
        self.transport().device.driver.prepare_sleep()
    }

    /// Takes the announcement back, after the sleep or instead of it.
    pub fn cancel_sleep(&mut self) {
        self.transport().device.driver.cancel_sleep();
    }

    /// The NIC's process is gone. Takes in what it had told, goes on as after a reset, and leaves the rings empty for the next one. Until
    /// that has come, nothing is sent or received.
    pub fn leave_nic(&mut self, now: Instant) {
        loop {
            let device = &mut self.transport().device;
            let Some(received) = device.driver.poll_receive(&mut device.counters) else {
                break;
            };
            self.take_in(now, received);
        }
        self.transport().device.driver.clear();
        self.take_nic_reset(now);
    }

    /// Host cycles by component.
    pub fn meter(&self) -> &Meter {
        &self.offload.transport.device.meter
    }

    /// The meter, to be switched to [`Component::Idle`](crate::Component::Idle) while the stack sleeps.
    pub fn meter_mut(&mut self) -> &mut Meter {
        &mut self.transport().device.meter
    }

    /// The stack's counters, named as in Linux where it has one.
    pub fn counters(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        let memory = self.memory();
        let gauges = [
            memory.level as u64,
            memory.limit,
            memory.posted,
            memory.received,
            memory.queued,
            memory.control,
            memory.resident,
        ];
        let names = MEMORY_GAUGES.iter().map(|(name, _)| *name);
        let counters = self.offload.transport.device.counters.iter();
        counters.chain(names.zip(gauges))
    }
}
