//! A target, which does all that the protocol allows.

mod scsi;

use std::collections::HashMap;
use std::net::SocketAddr;

use host::pdus::{Agreed, DataDigest, Destination, Framings, PduData, PduSink};
use host::{ListenOptions, ListenerId, SocketId};
use wire::iscsi::{
    Framing, LoginResponse, LoginStatus, LogoutResponse, Lun, NO_TAG, NopIn, Pair as Key, Pdu,
    Phase, ProtocolError, ResponseNumbers, Role, ScsiCommand, Stage, TextResponse, pairs,
};

use super::NAME;
use crate::disk::{self, disk_bytes};
use crate::pair::{PORT, Pair, SERVER, v4};

/// How a target behaves.
#[derive(Clone, Copy, Debug)]
pub(super) struct Style {
    pub(super) header_digest: bool,
    pub(super) data_digest: bool,
    /// MaxRecvDataSegmentLength of the target, and the most that it sends.
    pub(super) segment: u32,
    /// Bytes of an R2T.
    pub(super) burst: u32,
    pub(super) immediate: bool,
    /// The last Data-In has the status.
    pub(super) collapses: bool,
    /// Every so many commands are answered, the last one first.
    pub(super) batch: usize,
    /// Commands that it has room for.
    pub(super) window: u32,
    /// One of so many commands is answered by something else.
    pub(super) grumbles: Option<usize>,
    pub(super) chap: bool,
}

pub(super) const PLAIN: Style = Style {
    header_digest: false,
    data_digest: false,
    segment: 8192,
    burst: 64 << 10,
    immediate: true,
    collapses: true,
    batch: 1,
    window: 32,
    grumbles: None,
    chap: false,
};

/// A target with one unit.
pub(super) struct Target {
    listener: ListenerId,
    pub(super) socket: Option<SocketId>,
    style: Style,
    disk: Vec<u8>,
    framings: Framings<Framing>,
    pub(super) outgoing: std::collections::VecDeque<(Pdu, Vec<u8>)>,
    stat_sn: u32,
    exp_cmd_sn: u32,
    transfer_tag: u32,
    /// Writes by task tag, with the bytes that are there.
    pub(super) writes: HashMap<u32, Write>,
    /// Reads that are not answered yet.
    pub(super) held: Vec<ScsiCommand>,
    commands: usize,
    /// By command.
    refusals: HashMap<[u8; 16], u32>,
    /// The login is over behind the response in progress.
    has_ended_login: bool,
    asked_for_chap: bool,
    pub(super) pings: usize,
    taken: Taken,
    /// It answers nothing.
    pub(super) is_mute: bool,
}

pub(super) struct Write {
    pub(super) command: ScsiCommand,
    data: Vec<u8>,
    have: u32,
    pub(super) r2ts: u32,
}

/// What came, in order.
#[derive(Default)]
struct Taken {
    pdus: Vec<(Pdu, Vec<u8>)>,
    coming: Option<Pdu>,
}

impl PduSink<Framing> for Taken {
    fn header(&mut self, pdu: &Pdu) -> Result<Destination<'_>, ProtocolError> {
        if pdu.lengths().data_len == 0 {
            self.pdus.push((*pdu, Vec::new()));
            return Ok(Destination::Nothing);
        }
        self.coming = Some(*pdu);
        Ok(Destination::Inline)
    }

    fn end(&mut self, digest: DataDigest, data: &[u8]) -> Result<(), ProtocolError> {
        assert_eq!(digest, DataDigest::Good);
        self.pdus.push((self.coming.take().unwrap(), data.to_vec()));
        Ok(())
    }
}

impl Target {
    pub(super) fn new(pair: &mut Pair, style: Style) -> Target {
        let address = SocketAddr::new(v4(SERVER), PORT);
        let listener = pair
            .stack(SERVER)
            .listen(address, ListenOptions::default())
            .unwrap();
        Target {
            listener,
            socket: None,
            style,
            disk: disk_bytes(),
            framings: Framings {
                incoming: Framing::login(Role::Initiator),
                outgoing: Framing::login(Role::Target),
            },
            outgoing: Default::default(),
            stat_sn: 77,
            exp_cmd_sn: 1,
            transfer_tag: 0,
            writes: HashMap::new(),
            held: Vec::new(),
            commands: 0,
            refusals: HashMap::new(),
            has_ended_login: false,
            asked_for_chap: false,
            pings: 0,
            taken: Taken::default(),
            is_mute: false,
        }
    }

    fn advance(&mut self, pair: &mut Pair) -> bool {
        let now = pair.now();
        let stack = pair.stack(SERVER);
        let Some(socket) = self.socket else {
            self.socket = stack.accept(self.listener);
            if let Some(socket) = self.socket {
                stack.start_pdus(now, socket, self.framings).unwrap();
            }
            return self.socket.is_some();
        };
        let received = stack.receive_pdus(now, socket, &mut self.taken);
        let mut progress = matches!(received, Ok(1..));
        for (pdu, data) in std::mem::take(&mut self.taken.pdus) {
            self.handle(&pdu, &data);
        }
        if self.is_mute {
            return progress;
        }
        if !self.held.is_empty() && (self.held.len() >= self.style.batch || !progress) {
            for command in std::mem::take(&mut self.held).into_iter().rev() {
                self.answer_read(&command);
            }
        }
        while let Some((pdu, data)) = self.outgoing.front() {
            let data = match data.is_empty() {
                true => PduData::None,
                false => PduData::Bytes(data),
            };
            if stack.send_pdu::<Framing>(now, socket, pdu, data).is_err() {
                break;
            }
            progress = true;
            self.outgoing.pop_front();
        }
        if self.has_ended_login && self.outgoing.is_empty() {
            self.has_ended_login = false;
            let agreed = Agreed {
                framings: self.framings,
                transmit: None,
                receive: None,
                checks_digests: false,
                tags: 0,
            };
            stack.pdus_negotiated(now, socket, agreed).unwrap();
        }
        progress
    }

    /// Numbers of a PDU with a status.
    pub(super) fn status_numbers(&mut self) -> ResponseNumbers {
        let numbers = self.numbers();
        self.stat_sn = self.stat_sn.wrapping_add(1);
        numbers
    }

    fn numbers(&self) -> ResponseNumbers {
        ResponseNumbers {
            stat_sn: self.stat_sn,
            exp_cmd_sn: self.exp_cmd_sn,
            max_cmd_sn: self.exp_cmd_sn.wrapping_add(self.style.window - 1),
        }
    }

    fn handle(&mut self, pdu: &Pdu, data: &[u8]) {
        match pdu {
            Pdu::LoginRequest(request) => {
                let text: HashMap<_, _> = pairs(data)
                    .map(|pair| pair.map(|pair| (pair.key, pair.value)).unwrap())
                    .collect();
                self.log_in(request, &text);
            }
            Pdu::TextRequest(request) => {
                // In two parts.
                let text = format!(
                    "TargetName={NAME}\0TargetAddress=192.0.2.1:3260,1\0TargetName={NAME}-2\0"
                );
                let is_first = request.transfer_tag == NO_TAG;
                let (first, second) = text.as_bytes().split_at(30);
                let data = if is_first { first } else { second };
                let response = TextResponse {
                    is_final: !is_first,
                    continues: is_first,
                    lun: Lun::default(),
                    task_tag: request.task_tag,
                    transfer_tag: if is_first { 9 } else { NO_TAG },
                    numbers: self.status_numbers(),
                    data_len: data.len() as u32,
                };
                self.outgoing
                    .push_back((Pdu::TextResponse(response), data.to_vec()));
            }
            Pdu::ScsiCommand(command) => {
                assert_eq!(command.numbers.cmd_sn, self.exp_cmd_sn);
                self.exp_cmd_sn = self.exp_cmd_sn.wrapping_add(1);
                self.execute(command, data);
            }
            Pdu::DataOut(part) => {
                let write = self.writes.get_mut(&part.task_tag).unwrap();
                assert_eq!(part.offset, write.have);
                let at = part.offset as usize;
                write.data[at..at + data.len()].copy_from_slice(data);
                write.have += data.len() as u32;
                if part.is_final {
                    self.go_on_writing(part.task_tag);
                }
            }
            Pdu::NopOut(nop) => {
                assert_eq!(nop.task_tag, NO_TAG);
                self.pings += 1;
            }
            Pdu::LogoutRequest(request) => {
                let response = LogoutResponse {
                    response: 0,
                    task_tag: request.task_tag,
                    numbers: self.status_numbers(),
                    wait: 0,
                    retain: 0,
                };
                self.outgoing
                    .push_back((Pdu::LogoutResponse(response), Vec::new()));
            }
            other => panic!("{other:?}"),
        }
    }

    fn log_in(&mut self, request: &wire::iscsi::LoginRequest, text: &HashMap<&str, &str>) {
        let (mut next, mut status) = (request.next, LoginStatus::SUCCESS);
        let mut answers: Vec<(&str, String)> = Vec::new();
        match request.stage {
            Stage::Security if self.style.chap => {
                next = None;
                if let Some(methods) = text.get("AuthMethod") {
                    match methods.contains("CHAP") {
                        true => answers.push(("AuthMethod", "CHAP".into())),
                        false => status = LoginStatus::AUTHENTICATION_FAILURE,
                    }
                } else if text.contains_key("CHAP_A") {
                    self.asked_for_chap = true;
                    answers.push(("CHAP_A", "5".into()));
                    answers.push(("CHAP_I", "17".into()));
                    answers.push(("CHAP_C", "0x0102030405".into()));
                } else {
                    assert!(self.asked_for_chap && text["CHAP_N"] == "me");
                    // As md5sum says of 11, the secret, and 01 to 05.
                    match text["CHAP_R"] == CHAP_RESPONSE {
                        true => next = request.next,
                        false => status = LoginStatus::AUTHENTICATION_FAILURE,
                    }
                }
            }
            Stage::Security => {
                if text.get("TargetName").is_some_and(|name| *name != NAME) {
                    status = LoginStatus::NOT_FOUND;
                }
                answers.push(("AuthMethod", "None".into()));
            }
            _ => {
                let mut digest = |key, is_wanted| {
                    let chosen = is_wanted && text[key].starts_with("CRC32C");
                    answers.push((key, if chosen { "CRC32C" } else { "None" }.into()));
                    chosen
                };
                let header_digest = digest("HeaderDigest", self.style.header_digest);
                let data_digest = digest("DataDigest", self.style.data_digest);
                answers.push(("MaxRecvDataSegmentLength", self.style.segment.to_string()));
                answers.push(("MaxBurstLength", self.style.burst.to_string()));
                answers.push(("FirstBurstLength", "4096".into()));
                let immediate = if self.style.immediate { "Yes" } else { "No" };
                answers.push(("ImmediateData", immediate.into()));
                answers.push(("InitialR2T", "Yes".into()));
                let most = text["MaxRecvDataSegmentLength"].parse().unwrap();
                let framing = |sender, max_data| Framing {
                    sender,
                    phase: Phase::FullFeature,
                    header_digest,
                    data_digest,
                    max_data,
                };
                self.framings = Framings {
                    incoming: framing(Role::Initiator, self.style.segment),
                    outgoing: framing(Role::Target, most),
                };
                self.has_ended_login = true;
            }
        }
        let mut data = Vec::new();
        for (key, value) in &answers {
            Key { key, value }.emit(&mut data);
        }
        let response = LoginResponse {
            stage: request.stage,
            next,
            continues: false,
            isid: request.isid,
            tsih: 5,
            task_tag: request.task_tag,
            numbers: self.status_numbers(),
            status,
            data_len: data.len() as u32,
        };
        self.outgoing
            .push_back((Pdu::LoginResponse(response), data));
    }

    pub(super) fn ping(&mut self) {
        let pdu = NopIn {
            lun: Lun::default(),
            task_tag: NO_TAG,
            transfer_tag: 3,
            numbers: self.numbers(),
            data_len: 0,
        };
        self.outgoing.push_back((Pdu::NopIn(pdu), Vec::new()));
    }
}

/// The answer to the challenge of [`Target::log_in`], by md5sum.
const CHAP_RESPONSE: &str = "0x9362d01b68187872b42593e9266448ea";

impl disk::Server for Target {
    fn poll(&mut self, pair: &mut Pair) -> bool {
        self.advance(pair)
    }

    fn disk(&self) -> &[u8] {
        &self.disk
    }
}
