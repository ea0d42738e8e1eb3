//! An iSCSI target with one unit: it takes the digests that an initiator wants, and all data of a write that comes with the command.

use std::collections::HashMap;
use std::time::Instant;

use host::pdus::{Agreed, DataDigest, Destination, Framings, PduSink};
use host::{SocketId, Stack};
use l5p::Layers;
use l5p::iscsi::{Framing, Parameters, ProtocolError, Role};
use nic::ring::Slice;
use wire::iscsi::{
    DataIn, LoginRequest, LoginResponse, LoginStatus, LogoutResponse, Lun, Pair, Pdu, Phase,
    ReadyToTransfer, Residual, ResponseNumbers, ScsiCommand, ScsiResponse, Stage, pairs,
};

use super::{BLOCK_LEN, Content, Disk, Outbox, Serve};

/// MaxRecvDataSegmentLength.
const SEGMENT: u32 = 256 << 10;
/// The most bytes of one command.
const MAX_TRANSFER: u32 = 1 << 20;
/// Commands that it has room for.
const WINDOW: u32 = 1024;
const GOOD: u8 = 0;
const CHECK_CONDITION: u8 = 2;
/// Sense data: an illegal request, behind its length.
const ILLEGAL_REQUEST: [u8; 20] = [
    0, 18, 0x70, 0, 5, 0, 0, 0, 0, 10, 0, 0, 0, 0, 0x20, 0, 0, 0, 0, 0,
];

/// A connection.
pub struct Iscsi {
    socket: SocketId,
    disk: Disk,
    outbox: Outbox<Framing>,
    sink: Sink,
    stat_sn: u32,
    exp_cmd_sn: u32,
    /// What holds behind the response that ends the login, once it is there.
    agreed: Option<Framings<Framing>>,
    /// The most bytes of data in a PDU for the initiator.
    segment: u32,
}

/// Takes PDUs.
struct Sink {
    disk: Disk,
    taken: Vec<(Pdu, Vec<u8>)>,
    coming: Option<Pdu>,
    slices: Vec<Slice>,
    /// Writes whose data is not all there, by task tag.
    writes: HashMap<u32, Write>,
}

/// A write.
#[derive(Clone, Copy)]
struct Write {
    command: ScsiCommand,
    offset: u64,
    have: u32,
}

impl PduSink<Framing> for Sink {
    fn header(&mut self, pdu: &Pdu) -> Result<Destination<'_>, ProtocolError> {
        let data_len = pdu.lengths().data_len;
        let place = match pdu {
            Pdu::ScsiCommand(command) => {
                let range = range_of(command);
                if let Some((offset, _)) = range.filter(|_| command.writes) {
                    let write = Write {
                        command: *command,
                        offset,
                        have: data_len,
                    };
                    self.writes.insert(command.task_tag, write);
                }
                range.map(|(offset, _)| offset)
            }
            Pdu::DataOut(part) => self.writes.get_mut(&part.task_tag).map(|write| {
                write.have += data_len;
                write.offset + u64::from(part.offset)
            }),
            _ => None,
        };
        if data_len == 0 {
            self.taken.push((*pdu, Vec::new()));
            return Ok(Destination::Nothing);
        }
        self.coming = Some(*pdu);
        match place {
            Some(place) => match self.disk.slice(place, data_len) {
                Some(slice) => {
                    self.slices.clear();
                    self.slices.push(slice);
                    Ok(Destination::Slices(&self.slices))
                }
                None => Ok(Destination::Discard),
            },
            None => Ok(Destination::Inline),
        }
    }

    fn end(&mut self, digest: DataDigest, data: &[u8]) -> Result<(), ProtocolError> {
        let Some(pdu) = self.coming.take() else {
            return Ok(());
        };
        if digest == DataDigest::Bad {
            return Err(ProtocolError::DataDigest(pdu.opcode()));
        }
        self.taken.push((pdu, data.to_vec()));
        Ok(())
    }
}

/// The bytes of the disk that a READ or a WRITE is about: the first, and how many.
fn range_of(command: &ScsiCommand) -> Option<(u64, u32)> {
    let cdb = &command.cdb;
    let word = |at: usize| u32::from_be_bytes([cdb[at], cdb[at + 1], cdb[at + 2], cdb[at + 3]]);
    let (block, count) = match cdb[0] {
        0x28 | 0x2a => (
            u64::from(word(2)),
            u32::from(u16::from_be_bytes([cdb[7], cdb[8]])),
        ),
        0x88 | 0x8a => (u64::from(word(2)) << 32 | u64::from(word(6)), word(10)),
        _ => return None,
    };
    let offset = block.checked_mul(BLOCK_LEN.into())?;
    Some((offset, count.checked_mul(BLOCK_LEN)?))
}

impl Serve for Iscsi {
    fn new(stack: &mut Stack, socket: SocketId, now: Instant, disk: Disk) -> Iscsi {
        let framings = Framings {
            incoming: Framing::login(Role::Initiator),
            outgoing: Framing::login(Role::Target),
        };
        let started = stack
            .set_nodelay(socket, true)
            .and_then(|()| stack.start_pdus(now, socket, framings));
        started.expect("the connection carries nothing yet");
        Iscsi {
            socket,
            outbox: Outbox::new(),
            sink: Sink {
                disk: disk.clone(),
                taken: Vec::new(),
                coming: None,
                slices: Vec::new(),
                writes: HashMap::new(),
            },
            disk,
            stat_sn: 1,
            exp_cmd_sn: 1,
            agreed: None,
            segment: SEGMENT,
        }
    }

    fn poll(&mut self, stack: &mut Stack, now: Instant) -> bool {
        let received = stack.receive_pdus(now, self.socket, &mut self.sink);
        for (pdu, data) in std::mem::take(&mut self.sink.taken) {
            self.handle(&pdu, &data);
        }
        let sent = self.outbox.send(stack, self.socket, now);
        if self.outbox.waiting.is_empty()
            && let Some(framings) = self.agreed.take()
        {
            let outgoing = &framings.outgoing;
            let makes = outgoing.data_digest;
            let agreed = Agreed {
                transmit: makes.then(|| Layers::of(&Parameters::of(outgoing, 0))),
                framings,
                receive: None,
                checks_digests: false,
                tags: 0,
            };
            let negotiated = stack.pdus_negotiated(now, self.socket, agreed);
            negotiated.expect("between two PDUs");
        }
        matches!(received, Ok(1..)) || sent
    }
}

impl Iscsi {
    fn numbers(&self) -> ResponseNumbers {
        ResponseNumbers {
            stat_sn: self.stat_sn,
            exp_cmd_sn: self.exp_cmd_sn,
            max_cmd_sn: self.exp_cmd_sn.wrapping_add(WINDOW - 1),
        }
    }

    /// Those of a PDU with a status of its own.
    fn next_numbers(&mut self) -> ResponseNumbers {
        let numbers = self.numbers();
        self.stat_sn = self.stat_sn.wrapping_add(1);
        numbers
    }

    fn handle(&mut self, pdu: &Pdu, data: &[u8]) {
        match pdu {
            Pdu::LoginRequest(request) => self.log_in(request, data),
            Pdu::ScsiCommand(command) => {
                self.exp_cmd_sn = self.exp_cmd_sn.wrapping_add(1);
                self.execute(command);
            }
            Pdu::DataOut(part) if part.is_final => self.go_on_writing(part.task_tag),
            Pdu::LogoutRequest(request) => {
                let response = LogoutResponse {
                    response: 0,
                    task_tag: request.task_tag,
                    numbers: self.next_numbers(),
                    wait: 0,
                    retain: 0,
                };
                self.outbox
                    .push(Pdu::LogoutResponse(response), Content::None);
            }
            _ => {}
        }
    }

    fn log_in(&mut self, request: &LoginRequest, text: &[u8]) {
        let asked: HashMap<&str, &str> = pairs(text)
            .filter_map(Result::ok)
            .map(|pair| (pair.key, pair.value))
            .collect();
        let mut answer = Vec::new();
        let mut put = |key, value: &str| Pair { key, value }.emit(&mut answer);
        if request.stage == Stage::Security {
            put("AuthMethod", "None");
        } else {
            let wants = |key| {
                asked
                    .get(key)
                    .is_some_and(|list: &&str| list.contains("CRC32C"))
            };
            let digests = [wants("HeaderDigest"), wants("DataDigest")];
            for (key, has) in ["HeaderDigest", "DataDigest"].into_iter().zip(digests) {
                put(key, if has { "CRC32C" } else { "None" });
            }
            put("MaxRecvDataSegmentLength", &SEGMENT.to_string());
            put("FirstBurstLength", &SEGMENT.to_string());
            put("MaxBurstLength", &MAX_TRANSFER.to_string());
            put("ImmediateData", "Yes");
            let most = asked.get("MaxRecvDataSegmentLength");
            let most = most.and_then(|most| most.parse().ok());
            self.segment = most.unwrap_or(wire::iscsi::DEFAULT_MAX_DATA);
            let framing = |sender, max_data| Framing {
                sender,
                phase: Phase::FullFeature,
                header_digest: digests[0],
                data_digest: digests[1],
                max_data,
            };
            self.agreed = Some(Framings {
                incoming: framing(Role::Initiator, SEGMENT),
                outgoing: framing(Role::Target, self.segment),
            });
        }
        let response = LoginResponse {
            stage: request.stage,
            next: request.next,
            continues: false,
            isid: request.isid,
            tsih: 1,
            task_tag: request.task_tag,
            numbers: self.next_numbers(),
            status: LoginStatus::SUCCESS,
            data_len: answer.len() as u32,
        };
        self.outbox
            .push(Pdu::LoginResponse(response), Content::Bytes(answer));
    }

    fn execute(&mut self, command: &ScsiCommand) {
        match command.cdb[0] {
            0x28 | 0x88 => self.read(command),
            0x2a | 0x8a => self.go_on_writing(command.task_tag),
            0x00 | 0x35 => self.respond(command, GOOD, Content::None),
            0x12 if command.cdb[1] == 0 => {
                let mut answer = vec![0; 36];
                answer[8..17].copy_from_slice(b"longshore");
                self.tell(command, answer);
            }
            0x9e => {
                let last = self.disk.size() / u64::from(BLOCK_LEN) - 1;
                let mut answer = last.to_be_bytes().to_vec();
                answer.extend(BLOCK_LEN.to_be_bytes());
                answer.resize(32, 0);
                self.tell(command, answer);
            }
            _ => self.refuse(command),
        }
    }

    fn read(&mut self, command: &ScsiCommand) {
        let slice = range_of(command).and_then(|(offset, len)| self.disk.slice(offset, len));
        let Some(slice) = slice.filter(|slice| slice.len == command.expected_len) else {
            return self.refuse(command);
        };
        let mut at = 0;
        while at < slice.len {
            let len = (slice.len - at).min(self.segment);
            let part = Slice {
                offset: slice.offset + u64::from(at),
                len,
                ..slice
            };
            self.send_data(
                command,
                (at, len),
                at + len == slice.len,
                Content::Disk(part),
            );
            at += len;
        }
    }

    /// Answers with bytes, as many as were asked for.
    fn tell(&mut self, command: &ScsiCommand, mut answer: Vec<u8>) {
        answer.truncate(command.expected_len as usize);
        let len = answer.len() as u32;
        self.send_data(command, (0, len), true, Content::Bytes(answer));
    }

    fn send_data(
        &mut self,
        command: &ScsiCommand,
        (offset, data_len): (u32, u32),
        ends: bool,
        content: Content,
    ) {
        let fewer = command.expected_len - (offset + data_len);
        let pdu = DataIn {
            is_final: ends,
            status: ends.then_some(GOOD),
            task_tag: command.task_tag,
            numbers: match ends {
                true => self.next_numbers(),
                false => self.numbers(),
            },
            data_sn: offset / self.segment,
            offset,
            residual: match fewer {
                fewer if ends && fewer > 0 => Residual::Underflow(fewer),
                _ => Residual::None,
            },
            data_len,
        };
        self.outbox.push(Pdu::DataIn(pdu), content);
    }

    /// Asks for the rest of a write's data, or answers it.
    fn go_on_writing(&mut self, task_tag: u32) {
        let Some(Write { command, have, .. }) = self.sink.writes.get(&task_tag).copied() else {
            return;
        };
        let left = command.expected_len.saturating_sub(have);
        if left == 0 {
            self.sink.writes.remove(&task_tag);
            return self.respond(&command, GOOD, Content::None);
        }
        let ready = ReadyToTransfer {
            lun: Lun::default(),
            task_tag,
            transfer_tag: task_tag,
            numbers: self.numbers(),
            r2t_sn: 0,
            offset: have,
            len: left,
        };
        self.outbox.push(Pdu::ReadyToTransfer(ready), Content::None);
    }

    fn refuse(&mut self, command: &ScsiCommand) {
        let sense = Content::Bytes(ILLEGAL_REQUEST.to_vec());
        self.respond(command, CHECK_CONDITION, sense);
    }

    fn respond(&mut self, command: &ScsiCommand, status: u8, sense: Content) {
        let pdu = ScsiResponse {
            response: 0,
            status,
            task_tag: command.task_tag,
            numbers: self.next_numbers(),
            data_count: 0,
            residual: Residual::None,
            data_len: match &sense {
                Content::Bytes(bytes) => bytes.len() as u32,
                _ => 0,
            },
        };
        self.outbox.push(Pdu::ScsiResponse(pdu), sense);
    }
}
