//! What goes out: capsules, and the data that R2Ts asked for (NVMe/TCP 1.0 §3.3.2).

use wire::nvme::command::{DataPointer, opcode};
use wire::nvme::{CapsuleCmd, H2CData, Pdu};

use super::{Begins, Grant, Outgoing, Payload, Queue, State, Transfer};
use crate::nvme::initiator::commands::Command;

impl Queue {
    /// The next PDU to send; `None`: none for now. It must be sent, or the connection closed.
    ///
    /// Capsules come before data, so that a small command doesn't wait for a large one's data. There are at most as
    /// many as the queue is deep, so data comes too.
    pub fn poll_pdu(&mut self) -> Option<Outgoing> {
        match self.state {
            State::Live => self.poll_capsule().or_else(|| self.poll_data()),
            State::Closed => None,
            _ => self.poll_opening(),
        }
    }

    /// How the data of a command is described in its entry.
    pub(super) fn data_pointer(&self, transfer: Transfer) -> DataPointer {
        let len = transfer.len();
        assert!(
            len <= self.config.max_transfer,
            "{len} bytes in one command"
        );
        match transfer {
            Transfer::ToController(len) if len > 0 && len <= self.config.in_capsule => {
                DataPointer::InCapsule { offset: 0, len }
            }
            _ => DataPointer::Transport { len },
        }
    }

    fn poll_capsule(&mut self) -> Option<Outgoing> {
        let cid = self.capsules.pop_front()?;
        let generation = self.commands.generation(cid)?;
        let (command, covered) = self.commands.get_mut(cid)?;
        command.sent = true;
        let data_len = match command.entry.data {
            DataPointer::InCapsule { len, .. } => len,
            _ => 0,
        };
        let mut payload = Payload::None;
        if data_len > 0 {
            covered.add(0, data_len).expect("nothing is covered yet");
            payload = Payload::Command {
                token: command.token,
                offset: 0,
                len: data_len,
            };
        }
        Some(Outgoing {
            pdu: Pdu::CapsuleCmd(CapsuleCmd {
                sqe: command.entry.to_bytes(),
                data_len,
            }),
            payload,
            begins: Some(Begins {
                cid,
                generation,
                token: command.token,
            }),
        })
    }

    fn poll_data(&mut self) -> Option<Outgoing> {
        let limit = self.negotiated?.max_h2c_data.min(self.config.max_h2c_data);
        loop {
            let grant = self.grants.front_mut()?;
            // Its command may have failed before all data was sent.
            if self.commands.generation(grant.cid) != Some(grant.generation) {
                self.grants.pop_front();
                continue;
            }
            let (cid, len) = (grant.cid, grant.len.min(limit));
            let last = len == grant.len;
            let pdu = grant.take(len, last);
            if last {
                self.grants.pop_front();
            }
            let (command, _) = self.commands.get_mut(cid)?;
            command.r2ts -= u32::from(last);
            return Some(Outgoing {
                payload: Payload::Command {
                    token: command.token,
                    offset: pdu.data_offset,
                    len,
                },
                pdu: Pdu::H2CData(pdu),
                begins: None,
            });
        }
    }
}

impl Grant {
    /// The PDU for the next `len` bytes.
    fn take(&mut self, len: u32, last: bool) -> H2CData {
        let pdu = H2CData {
            cccid: self.cid,
            ttag: self.ttag,
            data_offset: self.offset,
            data_len: len,
            last,
        };
        self.offset += len;
        self.len -= len;
        pdu
    }
}

impl Transfer {
    /// Bytes of data.
    #[must_use]
    pub const fn len(self) -> u32 {
        match self {
            Transfer::None => 0,
            Transfer::ToHost(len) | Transfer::ToController(len) => len,
        }
    }

    /// Whether there is no data.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.len() == 0
    }
}

impl Command {
    /// Whether it may take as long as it likes: a request for events of an admin queue. An I/O queue has no such opcode.
    pub(super) fn is_patient(&self) -> bool {
        self.entry.opcode == opcode::ASYNC_EVENT_REQUEST
    }
}
