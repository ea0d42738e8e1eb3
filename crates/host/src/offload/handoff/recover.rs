//! Contexts of connections that the NIC runs: where one is to go on (Autonomous NIC offloads §4.2, `l5o_get_tx_msgstate`).

use super::bypass::Bypass;
use crate::device::Device;
use crate::driver::{Stopped, ToeRecovery};
use crate::socket::{Recover, Socket};

impl Bypass<'_> {
    /// Brings a context to where the NIC is to send next, and lets it go on.
    pub(super) fn answer_recovery(&mut self, socket: &Socket) -> Result<(), Stopped> {
        let Some(Recover {
            context,
            tcpsn,
            sent,
        }) = self.offloaded.recover
        else {
            return Ok(());
        };
        let messages = socket.messages().ok_or(Stopped::NoMessage(tcpsn))?;
        let recovery = ToeRecovery {
            toe: self.offloaded.toe,
            context,
            resume: tcpsn,
            sent,
        };
        let Device {
            driver, counters, ..
        } = &mut *self.device;
        driver.post_toe_recovery(&recovery, &socket.send, &messages, counters)?;
        self.offloaded.recover = None;
        Ok(())
    }
}
