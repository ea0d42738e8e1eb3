//! Contexts of connections that the NIC runs: where one is to go on (Autonomous NIC offloads §4.2, `l5o_get_tx_msgstate`).

use super::offloaded::{OffloadedConnection, Recover};
use crate::driver::Stopped;
use crate::socket::Socket;
use crate::stack::Core;

impl Core {
    /// Brings a context to where the NIC is to send next, and lets it go on.
    pub(super) fn answer_recovery(
        &mut self,
        socket: &Socket,
        offloaded: &mut OffloadedConnection,
    ) -> Result<(), Stopped> {
        let Some(Recover {
            context,
            tcpsn,
            sent,
        }) = offloaded.recover
        else {
            return Ok(());
        };
        let messages = socket.messages().ok_or(Stopped::NoMessage(tcpsn))?;
        self.driver.post_toe_recovery(
            offloaded.toe,
            context,
            (tcpsn, sent),
            (&socket.send, &messages),
            &mut self.counters,
        )?;
        offloaded.recover = None;
        Ok(())
    }
}
