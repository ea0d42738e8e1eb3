//! An iSCSI client on a stack, against a target that does all that the protocol allows.

use std::collections::HashMap;
use std::net::SocketAddr;

use l5p::iscsi::initiator;
use proptest::prelude::*;
use wire::iscsi::{
    AsyncMessage, DataIn, Framing, LoginResponse, LoginStatus, LogoutResponse, Lun, NO_TAG, NopIn,
    Pair as Key, Pdu, Phase, ProtocolError, ReadyToTransfer, Residual, ResponseNumbers, Role,
    ScsiCommand, ScsiResponse, Stage, TextResponse, pairs,
};

use super::disk::{self, BLOCK, DISK, disk_bytes};
use crate::pair::{CLIENT, Connected as _, PORT, Pair, SERVER, hosts, slice, v4};
use host::disk::{Access, Client as _, Event, Operation, SubmitError};
use host::iscsi::{Chap, Client, Config, Failure, Options};
use host::pdus::{Agreed, DataDigest, Destination, Framings, PduData, PduOffload, PduSink};
use host::{ListenOptions, ListenerId, SocketId};

const NAME: &str = "iqn.2024-01.org.example:disk";
const CHAP_SECRET: &[u8] = b"correct horse";

/// How a target behaves.
#[derive(Clone, Copy, Debug)]
struct Style {
    header_digest: bool,
    data_digest: bool,
    /// MaxRecvDataSegmentLength of the target, and the most that it sends.
    segment: u32,
    /// Bytes of an R2T.
    burst: u32,
    immediate: bool,
    /// The last Data-In has the status.
    collapses: bool,
    /// Every so many commands are answered, the last one first.
    batch: usize,
    /// Commands that it has room for.
    window: u32,
    /// One of so many commands is answered by something else.
    grumbles: Option<usize>,
    chap: bool,
}

const PLAIN: Style = Style {
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
struct Target {
    listener: ListenerId,
    socket: Option<SocketId>,
    style: Style,
    disk: Vec<u8>,
    framings: Framings<Framing>,
    outgoing: std::collections::VecDeque<(Pdu, Vec<u8>)>,
    stat_sn: u32,
    exp_cmd_sn: u32,
    transfer_tag: u32,
    /// Writes by task tag, with the bytes that are there.
    writes: HashMap<u32, Write>,
    /// Reads that are not answered yet.
    held: Vec<ScsiCommand>,
    commands: usize,
    /// By command.
    refusals: HashMap<[u8; 16], u32>,
    /// The login is over behind the response in progress.
    has_ended_login: bool,
    asked_for_chap: bool,
    pings: usize,
    taken: Taken,
    /// It answers nothing.
    is_mute: bool,
}

struct Write {
    command: ScsiCommand,
    data: Vec<u8>,
    have: u32,
    r2ts: u32,
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
    fn new(pair: &mut Pair, style: Style) -> Target {
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
    fn status_numbers(&mut self) -> ResponseNumbers {
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

    fn execute(&mut self, command: &ScsiCommand, data: &[u8]) {
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
    fn refuses(&mut self, command: &ScsiCommand) -> bool {
        let number = (self.commands as u32).wrapping_mul(0x9e37_79b1) >> 16;
        let is_one = |every| (number as usize).is_multiple_of(every);
        if !self.style.grumbles.is_some_and(is_one) {
            return false;
        }
        let refusals = self.refusals.entry(command.cdb).or_default();
        *refusals += 1;
        *refusals <= 4
    }

    fn range(command: &ScsiCommand) -> std::ops::Range<usize> {
        let cdb = &command.cdb;
        let block = u32::from_be_bytes([cdb[2], cdb[3], cdb[4], cdb[5]]) * BLOCK;
        block as usize..(block + command.expected_len) as usize
    }

    fn answer_read(&mut self, command: &ScsiCommand) {
        let data = self.disk[Self::range(command)].to_vec();
        self.send_data(command, &data);
    }

    fn send_data(&mut self, command: &ScsiCommand, data: &[u8]) {
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

    fn go_on_writing(&mut self, tag: u32) {
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

    fn respond(&mut self, command: &ScsiCommand, status: u8, sense: Vec<u8>) {
        let pdu = self.response(command, status, Residual::None, sense.len() as u32);
        self.outgoing.push_back((pdu, sense));
    }

    fn response(
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

    fn ping(&mut self) {
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

type World = disk::World<Client, Target>;

fn world(style: Style, adjust: impl FnOnce(&mut Options)) -> World {
    let mut pair = hosts();
    let target = Target::new(&mut pair, style);
    let mut options = Options {
        address: SocketAddr::new(v4(SERVER), PORT),
        session: Config {
            name: "iqn.2024-01.org.example:host".into(),
            target: Some(NAME.into()),
            lun: Lun::default(),
            isid: [0x80, 1, 2, 3, 0, 0],
            chap: None,
            header_digest: true,
            data_digest: true,
            depth: 16,
            max_data: 64 << 10,
        },
        offload: PduOffload::ALL,
        map_threshold: 4096,
    };
    adjust(&mut options);
    let client = Client::new(pair.now(), options);
    World::new(pair, target, client)
}

fn styles() -> impl Strategy<Value = Style> {
    let behaviour = (
        any::<bool>(),
        any::<bool>(),
        1usize..5,
        prop_oneof![Just(1u32), Just(3), Just(64)],
        prop_oneof![Just(None), (5usize..12).prop_map(Some)],
    );
    (
        any::<(bool, bool)>(),
        prop_oneof![Just(512u32), Just(4100), Just(60_000)],
        prop_oneof![Just(512u32), Just(16 << 10), Just(1 << 20)],
        behaviour,
    )
        .prop_map(|((header_digest, data_digest), segment, burst, rest)| {
            let (immediate, collapses, batch, window, grumbles) = rest;
            Style {
                header_digest,
                data_digest,
                segment,
                burst,
                immediate,
                collapses,
                batch,
                window,
                grumbles,
                chap: false,
            }
        })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    #[test]
    fn what_is_read_is_what_the_unit_has_and_what_is_written_is_what_it_gets(
        style in styles(),
        offload in any::<(bool, bool, bool)>(),
        loss in prop_oneof![Just(0.0), Just(0.01)],
        seed in any::<u64>(),
        lens in prop::collection::vec(1u32..200, 1..6),
        depth in 1u16..20,
    ) {
        let mut world = world(style, |options| {
            options.offload = PduOffload {
                placement: offload.0,
                receive_digest: offload.1,
                transmit_digest: offload.2,
            };
            options.session.depth = depth;
        });
        world.ready();
        world.move_everything(&lens, depth.into(), (loss, seed));
        let count = |name| world.pair.counter(CLIENT, name);
        prop_assert!(offload.0 || count("IscsiRxBytesPlaced") == 0);
        prop_assert!(offload.1 && style.data_digest || count("IscsiRxDigestsDevice") == 0);
        prop_assert!(offload.2 && style.data_digest || count("IscsiTxPdusDevice") == 0);
        world.client.shutdown();
        world.run_until(|world| world.events.last() == Some(&Event::Ended(None)));
    }
}

#[test]
fn in_order_all_data_is_placed_and_all_digests_are_the_nics() {
    for (header_digest, data_digest) in [(false, false), (true, false), (false, true), (true, true)]
    {
        for placement in [false, true] {
            let style = Style {
                header_digest,
                data_digest,
                ..PLAIN
            };
            let mut world = world(style, |options| options.offload.placement = placement);
            world.ready();
            for at in 0..4 {
                world.submit(Operation::Read, (1 + 3 * at) * (16 << 10), 32 << 10);
            }
            world.run_until(|world| world.results.len() == 4);
            let count = |name| world.pair.counter(CLIENT, name);
            let expected = if placement {
                (128 << 10, 0)
            } else {
                (0, 128 << 10)
            };
            let figures = (count("IscsiRxBytesPlaced"), count("IscsiRxBytesCopied"));
            // Answers to the questions before are copied.
            assert_eq!(figures.0, expected.0);
            assert!(
                (expected.1..expected.1 + 512).contains(&figures.1),
                "{figures:?}"
            );
            let by_software = count("IscsiRxDigestsSw");
            let by_nic = count("IscsiRxDigestsDevice");
            assert_eq!((by_nic > 0, by_software), (data_digest, 0), "{style:?}");
        }
    }
}

#[test]
fn a_discovery_session_names_the_targets() {
    let mut world = world(PLAIN, |options| options.session.target = None);
    world.ready();
    let names: Vec<_> = world
        .client
        .targets()
        .iter()
        .map(|target| target.name.clone())
        .collect();
    assert_eq!(names, [NAME.to_owned(), format!("{NAME}-2")]);
    assert_eq!(world.client.targets()[0].portals, ["192.0.2.1:3260,1"]);
    world.client.shutdown();
    world.run_until(|world| world.events.last() == Some(&Event::Ended(None)));
}

#[test]
fn a_secret_is_proved_without_being_shown() {
    let chap = |secret: &[u8]| {
        Some(Chap {
            user: "me".into(),
            secret: secret.to_vec(),
        })
    };
    let style = Style {
        chap: true,
        ..PLAIN
    };
    let mut good = world(style, |options| options.session.chap = chap(CHAP_SECRET));
    good.ready();
    for wrong in [None, chap(b"wrong horse")] {
        let mut refused = world(style, |options| options.session.chap = wrong);
        refused.run_until(|world| !world.events.is_empty());
        let status = LoginStatus::AUTHENTICATION_FAILURE;
        let failure = Failure::Session(initiator::Failure::Refused(status));
        assert_eq!(refused.events, [Event::Ended(Some(failure))]);
    }
}

#[test]
fn a_target_that_is_not_there_is_told() {
    let mut world = world(PLAIN, |options| {
        options.session.target = Some("iqn.2024-01.org.example:tape".into());
    });
    world.run_until(|world| !world.events.is_empty());
    let failure = Failure::Session(initiator::Failure::Refused(LoginStatus::NOT_FOUND));
    assert_eq!(world.events, [Event::Ended(Some(failure))]);
    world.pair.assert_no_sockets(CLIENT);
}

#[test]
fn pings_are_answered() {
    let mut world = world(PLAIN, |_| {});
    world.ready();
    for _ in 0..5 {
        world.server.ping();
    }
    world.run_until(|world| world.server.pings == 5);
}

#[test]
fn what_can_be_no_request_is_refused_before_it_is_sent() {
    let mut world = world(PLAIN, |options| options.session.depth = 1);
    let access = |operation, offset, len| Access {
        operation,
        offset,
        len,
    };
    let slice = slice(world.region, 0, 4096);
    let read = access(Operation::Read, 0, 512);
    assert_eq!(
        world.client.submit(read, &[slice]),
        Err(SubmitError::NotConnected)
    );
    world.ready();
    let beyond = access(Operation::Read, DISK as u64, 512);
    let refused = SubmitError::Range {
        offset: DISK as u64,
        len: 512,
    };
    assert_eq!(world.client.submit(beyond, &[slice]), Err(refused));
    assert!(world.client.submit(read, &[slice]).is_ok());
    assert_eq!(world.client.submit(read, &[slice]), Err(SubmitError::Full));
}

#[test]
fn requests_end_with_the_connection() {
    let mut world = world(PLAIN, |_| {});
    world.ready();
    world.lose_everything(|target| target.socket.unwrap());
}

/// A read, and a write whose first bytes came with the command: the target has both, and answers neither. Gives their task tags.
fn in_flight(world: &mut World) -> (u32, u32) {
    world.server.is_mute = true;
    world.submit(Operation::Read, 0, 16 << 10);
    world.submit(Operation::Write, 0, 16 << 10);
    world.run_until(|world| !world.server.held.is_empty() && !world.server.writes.is_empty());
    let write = *world.server.writes.keys().next().unwrap();
    let read = world.server.held[0].task_tag;
    world.server.outgoing.clear();
    world.server.is_mute = false;
    (read, write)
}

/// What a target may say that ends the session, and with which words.
#[test]
fn what_breaks_the_protocol_ends_the_connection() {
    fn data_in(task_tag: u32, offset: u32, data_len: u32) -> Pdu {
        Pdu::DataIn(DataIn {
            is_final: true,
            status: None,
            task_tag,
            numbers: ResponseNumbers::default(),
            data_sn: 0,
            offset,
            residual: Residual::None,
            data_len,
        })
    }
    fn ready(task_tag: u32, r2t_sn: u32, offset: u32) -> Pdu {
        Pdu::ReadyToTransfer(ReadyToTransfer {
            lun: Lun::default(),
            task_tag,
            transfer_tag: 5,
            numbers: ResponseNumbers::default(),
            r2t_sn,
            offset,
            len: 512,
        })
    }
    // By the tags of a read and of a write.
    type Case = (fn(u32, u32) -> Vec<Pdu>, &'static str);
    let cases: [Case; 6] = [
        (|_, _| vec![data_in(0xabcd_0000, 0, 8)], "names no task"),
        (|read, _| vec![data_in(read, 0, 1 << 15)], "outside of"),
        (|read, _| vec![ready(read, 0, 0)], "names no task"),
        (|_, write| vec![ready(write, 3, 4096)], "R2TSN is 3"),
        (|_, write| vec![ready(write, 0, 0)], "outside of"),
        (
            |_, write| vec![ready(write, 0, 4096), ready(write, 1, 4608)],
            "may not come now",
        ),
    ];
    for (pdus, words) in cases {
        let mut world = world(PLAIN, |options| options.session.depth = 2);
        world.ready();
        let (read, write) = in_flight(&mut world);
        world.server.held.clear();
        for pdu in pdus(read, write) {
            let data = vec![0; pdu.lengths().data_len as usize];
            world.server.outgoing.push_back((pdu, data));
        }
        world.run_until(|world| world.events.len() > 1);
        let Some(Event::Ended(Some(failure))) = world.events.last() else {
            panic!("{words}");
        };
        let failure = failure.to_string();
        assert!(failure.contains(words), "{failure}: {words}");
        world.run_until(|world| world.results.len() == 2);
    }
}

#[test]
fn a_write_is_not_done_before_all_of_it_was_asked_for() {
    let mut world = world(PLAIN, |_| {});
    world.ready();
    let (_, write) = in_flight(&mut world);
    let command = world.server.writes.remove(&write).unwrap().command;
    world.server.respond(&command, 0, Vec::new());
    world.run_until(|world| world.results.len() == 2);
    let failures: Vec<_> = world
        .results
        .iter()
        .filter_map(|(_, result)| Some(result.as_ref().err()?.to_string()))
        .collect();
    assert_eq!(failures, ["4096 of 16384 bytes were moved"]);
}

#[test]
fn a_target_that_asks_for_a_logout_gets_one_when_all_is_answered() {
    let mut world = world(PLAIN, |_| {});
    world.ready();
    in_flight(&mut world);
    let message = AsyncMessage {
        lun: Lun::default(),
        numbers: world.server.status_numbers(),
        event: 1,
        parameters: [0; 3],
        data_len: 0,
    };
    world
        .server
        .outgoing
        .push_back((Pdu::AsyncMessage(message), Vec::new()));
    let write = *world.server.writes.keys().next().unwrap();
    world.server.writes.get_mut(&write).unwrap().r2ts = 0;
    world.server.go_on_writing(write);
    world.run_until(|world| world.events.len() > 1);
    let failure = Failure::Session(initiator::Failure::TargetEnded(1));
    assert_eq!(world.events.last(), Some(&Event::Ended(Some(failure))));
    assert!(world.results.iter().all(|(_, result)| result.is_ok()));
    assert_eq!(world.results.len(), 2);
}

#[test]
fn what_is_answered_before_the_end_is_not_lost() {
    let mut world = world(PLAIN, |_| {});
    world.ready();
    world.server.is_mute = true;
    world.submit(Operation::Write, 0, 4096);
    world.run_until(|world| !world.server.outgoing.is_empty());
    world.server.is_mute = false;
    let message = AsyncMessage {
        lun: Lun::default(),
        numbers: world.server.status_numbers(),
        event: 2,
        parameters: [0; 3],
        data_len: 0,
    };
    world
        .server
        .outgoing
        .push_back((Pdu::AsyncMessage(message), Vec::new()));
    world.run_until(|world| world.events.len() > 1 && !world.results.is_empty());
    assert!(world.results[0].1.is_ok());
}

#[test]
fn requests_that_are_sent_again_are_answered_before_the_logout() {
    let style = Style {
        grumbles: Some(2),
        ..PLAIN
    };
    let mut world = world(style, |_| {});
    world.ready();
    for at in 0..6 {
        world.submit(Operation::Read, at * 8192, 8192);
    }
    world.client.shutdown();
    world.run_until(|world| world.events.len() > 1);
    assert_eq!(world.events.last(), Some(&Event::Ended(None)));
    assert!(world.results.iter().all(|(_, result)| result.is_ok()));
    assert_eq!(world.results.len(), 6);
}
