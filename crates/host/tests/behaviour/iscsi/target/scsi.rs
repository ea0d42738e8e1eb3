//! What the target does with commands.

use wire::iscsi::{DataIn, Lun, Pdu, ReadyToTransfer, Residual, ScsiCommand, ScsiResponse};

use super::{Target, Write};
use crate::disk::{BLOCK, DISK};

impl Target {
    pub(super) fn execute(&mut self, command: &ScsiCommand, data: &[u8]) {
        self.commands += 1;
        if self.refuses(command) {
            let mut sense = vec![0, 18, 0x70, 0, 6];
            sense.resize(20, 0);
            sense[14] = 0x29;
            return match self.commands % 2 {
                0 => self.respond(command, 2, sense),
                _ => self.respond(command, 8, Vec::new()),
            };
        }
        match command.cdb[0] {
            0x28 => self.held.push(*command),
            0x2a => {
                let mut whole = vec![0; command.expected_len as usize];
                whole[..data.len()].copy_from_slice(data);
                let write = Write {
                    command: *command,
                    data: whole,
                    have: data.len() as u32,
                    r2ts: 0,
                };
                self.writes.insert(command.task_tag, write);
                self.go_on_writing(command.task_tag);
            }
            0x35 | 0x00 => self.respond(command, 0, Vec::new()),
            0x12 if command.cdb[1] == 0 => {
                let mut answer = vec![0; 36];
                answer[8..16].copy_from_slice(b"ACME    ");
                self.send_data(command, &answer);
            }
            0x9e => {
                let mut answer = vec![0; 32];
                let last = (DISK as u64 / u64::from(BLOCK)) - 1;
                answer[..8].copy_from_slice(&last.to_be_bytes());
                answer[8..12].copy_from_slice(&BLOCK.to_be_bytes());
                self.send_data(command, &answer);
            }
            // What it does not know.
            _ => {
                let mut sense = vec![0, 18, 0x70, 0, 5];
                sense.resize(20, 0);
                self.respond(command, 2, sense);
            }
        }
    }

    /// One of so many, and the same command fewer times than the client sends it.
    pub(super) fn refuses(&mut self, command: &ScsiCommand) -> bool {
        let number = (self.commands as u32).wrapping_mul(0x9e37_79b1) >> 16;
        let is_one = |every| (number as usize).is_multiple_of(every);
        if !self.style.grumbles.is_some_and(is_one) {
            return false;
        }
        let refusals = self.refusals.entry(command.cdb).or_default();
        *refusals += 1;
        *refusals <= 4
    }

    pub(super) fn range(command: &ScsiCommand) -> std::ops::Range<usize> {
        let cdb = &command.cdb;
        let block = u32::from_be_bytes([cdb[2], cdb[3], cdb[4], cdb[5]]) * BLOCK;
        block as usize..(block + command.expected_len) as usize
    }

    pub(super) fn answer_read(&mut self, command: &ScsiCommand) {
        let data = self.disk[Self::range(command)].to_vec();
        self.send_data(command, &data);
    }

    pub(super) fn send_data(&mut self, command: &ScsiCommand, data: &[u8]) {
        let data = &data[..data.len().min(command.expected_len as usize)];
        let fewer = command.expected_len - data.len() as u32;
        let residual = match fewer {
            0 => Residual::None,
            fewer => Residual::Underflow(fewer),
        };
        let len = self.style.segment as usize;
        let mut parts = data.chunks(len).enumerate().peekable();
        while let Some((n, part)) = parts.next() {
            let ends = self.style.collapses && parts.peek().is_none();
            let pdu = DataIn {
                is_final: parts.peek().is_none(),
                status: ends.then_some(0),
                task_tag: command.task_tag,
                numbers: if ends {
                    self.status_numbers()
                } else {
                    self.numbers()
                },
                data_sn: n as u32,
                offset: (n * len) as u32,
                residual: if ends { residual } else { Residual::None },
                data_len: part.len() as u32,
            };
            self.outgoing.push_back((Pdu::DataIn(pdu), part.to_vec()));
        }
        if !self.style.collapses {
            let pdu = self.response(command, 0, residual, 0);
            self.outgoing.push_back((pdu, Vec::new()));
        }
    }

    pub(in crate::iscsi) fn go_on_writing(&mut self, tag: u32) {
        let write = self.writes.get_mut(&tag).unwrap();
        let len = write.command.expected_len - write.have;
        if len == 0 {
            let write = self.writes.remove(&tag).unwrap();
            self.disk[Self::range(&write.command)].copy_from_slice(&write.data);
            return self.respond(&write.command, 0, Vec::new());
        }
        let (offset, r2t_sn) = (write.have, write.r2ts);
        write.r2ts += 1;
        self.transfer_tag += 1;
        let pdu = ReadyToTransfer {
            lun: Lun::default(),
            task_tag: tag,
            transfer_tag: self.transfer_tag,
            numbers: self.numbers(),
            r2t_sn,
            offset,
            len: len.min(self.style.burst),
        };
        self.outgoing
            .push_back((Pdu::ReadyToTransfer(pdu), Vec::new()));
    }

    pub(in crate::iscsi) fn respond(&mut self, command: &ScsiCommand, status: u8, sense: Vec<u8>) {
        let pdu = self.response(command, status, Residual::None, sense.len() as u32);
        self.outgoing.push_back((pdu, sense));
    }

    pub(super) fn response(
        &mut self,
        command: &ScsiCommand,
        status: u8,
        residual: Residual,
        data_len: u32,
    ) -> Pdu {
        Pdu::ScsiResponse(ScsiResponse {
            response: 0,
            status,
            task_tag: command.task_tag,
            numbers: self.status_numbers(),
            data_count: 0,
            residual,
            data_len,
        })
    }
}
