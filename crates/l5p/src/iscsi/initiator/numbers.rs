//! The numbers of commands and of statuses (RFC 7143 §4.2.2).

use wire::SeqNum;
use wire::iscsi::{NO_TAG, Pdu, ProtocolError, RequestNumbers, ResponseNumbers};

/// Which numbers come next.
#[derive(Debug)]
pub(super) struct Numbers {
    /// Of the next command.
    cmd_sn: u32,
    /// Of the last command that the target has room for.
    max_cmd_sn: u32,
    /// Of the next status; `None` before the first.
    exp_stat_sn: Option<u32>,
}

impl Numbers {
    /// Before the first PDU.
    pub fn new() -> Numbers {
        Numbers {
            cmd_sn: 1,
            max_cmd_sn: 1,
            exp_stat_sn: None,
        }
    }

    /// Those of a request that counts for nothing in the order of commands.
    pub fn immediate(&self) -> RequestNumbers {
        RequestNumbers {
            cmd_sn: self.cmd_sn,
            exp_stat_sn: self.exp_stat_sn(),
        }
    }

    /// Those of the next command, if the target has room for one.
    pub fn next(&mut self) -> Option<RequestNumbers> {
        let has_room = SeqNum(self.cmd_sn).at_or_before(SeqNum(self.max_cmd_sn));
        has_room.then(|| {
            let numbers = self.immediate();
            self.cmd_sn = self.cmd_sn.wrapping_add(1);
            numbers
        })
    }

    /// Of the next status.
    pub fn exp_stat_sn(&self) -> u32 {
        self.exp_stat_sn.unwrap_or(0)
    }

    /// Takes in those of a PDU.
    ///
    /// # Errors
    /// When a status is missing: at error recovery level 0 that ends the session.
    pub fn take(&mut self, pdu: &Pdu) -> Result<(), ProtocolError> {
        let Some(ResponseNumbers {
            stat_sn,
            exp_cmd_sn,
            max_cmd_sn,
        }) = pdu.response_numbers()
        else {
            return Ok(());
        };
        // What says that the window is smaller than nothing, or than it was, is old (RFC 7143 §4.2.2.1).
        let is_window = SeqNum(exp_cmd_sn).at_or_before(SeqNum(max_cmd_sn.wrapping_add(1)));
        let is_first = self.exp_stat_sn.is_none();
        if is_window && (is_first || SeqNum(self.max_cmd_sn).before(SeqNum(max_cmd_sn))) {
            self.max_cmd_sn = max_cmd_sn;
        }
        if !has_status(pdu) {
            return Ok(());
        }
        if let Some(expected) = self.exp_stat_sn
            && expected != stat_sn
        {
            return Err(ProtocolError::Sequence {
                what: "StatSN",
                got: stat_sn,
                expected,
            });
        }
        self.exp_stat_sn = Some(stat_sn.wrapping_add(1));
        Ok(())
    }
}

/// Whether the StatSN of a PDU is that of a status of its own.
fn has_status(pdu: &Pdu) -> bool {
    match pdu {
        Pdu::DataIn(data_in) => data_in.status.is_some(),
        Pdu::NopIn(nop) => nop.task_tag != NO_TAG,
        // After a refusal nothing comes, and some targets number it as if nothing had been before.
        Pdu::LoginResponse(response) => response.status.is_success(),
        Pdu::ReadyToTransfer(_) => false,
        _ => true,
    }
}
