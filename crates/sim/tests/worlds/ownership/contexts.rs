//! Connections with contexts of TLS and of NVMe/TCP on the NIC, handed off and taken back in every order of events: the contexts
//! stay where they are, and whoever runs the connection goes on with them.
//!
//! The peer's bytes and those that it must get are made beforehand, in software.

use std::sync::Arc;
use std::time::Instant;

use host::nvme::{Negotiated, PduOffload, opening};
use host::pdus::{DataDigest, Destination, PduData, PduSink};
use host::{CloseReason, Event, ListenOptions, ListenerId, Offload, SocketError, SocketId, Stack};
use l5p::crc32c::Crc32c;
use l5p::tls::{ContentType, CryptoInfo, Writer};
use nic::ring::{Region, Slice};
use sim::Suite;
use sim::explore::Choices;
use wire::nvme::{
    C2HData, Digests, FatalError, Framing, H2CData, ICReq, ICResp, MAX_HEADER_LEN, Pdu, Phase, Role,
};

use super::moves::{Moved, Moves, explore_all};
use super::peer::{Bytes, Plan, message};
use super::world::{App, HOST_IP, World};

/// What a server makes of the bytes of its connection.
trait Protocol {
    /// The connection is there.
    fn begin(&mut self, now: Instant, stack: &mut Stack, socket: SocketId);

    /// Takes what has come and answers it. Whether there was anything.
    fn talk(&mut self, now: Instant, stack: &mut Stack, socket: SocketId) -> bool;

    /// Everything is answered.
    fn is_done(&self) -> bool;
}

/// A server that closes when it has answered everything.
struct Server<P> {
    listener: Option<ListenerId>,
    socket: Option<SocketId>,
    protocol: P,
    moves: Moves,
    moved: Moved,
    is_closed: bool,
    closed: Option<CloseReason>,
}

impl<P: Protocol> App for Server<P> {
    fn drive(&mut self, now: Instant, stack: &mut Stack) -> bool {
        let mut moved = false;
        while let Some(event) = stack.poll_event() {
            moved = true;
            if let Event::Closed(_, reason) = event {
                self.closed = Some(reason);
            }
        }
        if self.socket.is_none()
            && let Some(listener) = self.listener
            && let Some(socket) = stack.accept(listener)
        {
            self.protocol.begin(now, stack, socket);
            self.socket = Some(socket);
            moved = true;
        }
        let Some(socket) = self.socket.filter(|_| !self.is_closed) else {
            return moved;
        };
        moved |= self.moved.turn(self.moves, now, stack, socket);
        moved |= self.protocol.talk(now, stack, socket);
        if self.protocol.is_done() {
            stack.close(now, socket).expect("it is open");
            self.is_closed = true;
            moved = true;
        }
        moved
    }
}

/// Bytes of a request, and of the answer to it.
const REQUEST: u32 = 300;
const ANSWER: u32 = 400;
/// Requests.
const REQUESTS: u32 = 4;

/// Requests and answers of a record each.
struct Records {
    transmit: CryptoInfo,
    receive: CryptoInfo,
    read: u32,
    answered: u32,
}

impl Protocol for Records {
    fn begin(&mut self, now: Instant, stack: &mut Stack, socket: SocketId) {
        let (transmit, receive) = (self.transmit.clone(), self.receive.clone());
        let installed = stack.install_tls(now, socket, transmit, receive, Offload::Both);
        installed.expect("connected");
    }

    fn talk(&mut self, now: Instant, stack: &mut Stack, socket: SocketId) -> bool {
        let mut moved = false;
        let mut buffer = [0; 4096];
        while let Ok(bytes @ 1..) = stack.read(now, socket, &mut buffer) {
            assert_eq!(buffer[..bytes], message(1, self.read, bytes as u32));
            self.read += bytes as u32;
            moved = true;
        }
        while self.answered < self.read / REQUEST {
            let answer = message(2, self.answered * ANSWER, ANSWER);
            match stack.write(now, socket, &answer) {
                Ok(bytes) => assert_eq!(bytes, answer.len(), "there is room for it"),
                Err(SocketError::WouldBlock | SocketError::Closed(_)) => break,
                Err(error) => panic!("{error}"),
            }
            self.answered += 1;
            moved = true;
        }
        moved
    }

    fn is_done(&self) -> bool {
        self.answered == REQUESTS
    }
}

impl Records {
    /// With the peer's plan, what it sends, and what it must get.
    fn new() -> (Self, Plan, [Vec<u8>; 2]) {
        let [peers, ours] = [1, 2].map(|seed| Suite::DEFAULT.keys(seed));
        let (request, requests) = records(&peers, 1, REQUEST);
        let (answer, mut answers) = records(&ours, 2, ANSWER);
        let mut writer = Writer::new(CryptoInfo {
            sequence: REQUESTS.into(),
            ..ours.clone()
        });
        let close_notify = [1, 0];
        let mut farewell = vec![0; writer.record_len(close_notify.len())];
        writer.seal_into(ContentType::ALERT, &[&close_notify], &mut farewell);
        answers.extend(farewell);
        let plan = Plan {
            message: request,
            messages: REQUESTS,
            answers: answer,
            ..Plan::default()
        };
        let records = Self {
            transmit: ours,
            receive: peers,
            read: 0,
            answered: 0,
        };
        (records, plan, [requests, answers])
    }
}

/// Messages of so many bytes, each in a record. Answers the length of one.
fn records(keys: &CryptoInfo, seed: u8, len: u32) -> (u32, Vec<u8>) {
    let mut writer = Writer::new(keys.clone());
    let record = writer.record_len(len as usize);
    let mut stream = vec![0; record * REQUESTS as usize];
    for (at, out) in (0..).zip(stream.chunks_mut(record)) {
        let content = message(seed, at * len, len);
        writer.seal_into(ContentType::APPLICATION_DATA, &[&content], out);
    }
    (record as u32, stream)
}

/// Bytes of each PDU that is exchanged here, and of the data of all but the first ones.
const PDU: u32 = MAX_HEADER_LEN as u32;
const DATA: u32 = 96;
/// The tag of the buffer that the peer writes to.
const TAG: u16 = 1;

/// A controller that gets data into a buffer which the NIC places them in, and answers each PDU with another one.
#[derive(Default)]
struct Controller {
    memory: Option<(Arc<Region>, Slice)>,
    sink: Sink,
    answered: u32,
}

#[derive(Default)]
struct Sink {
    buffer: Vec<Slice>,
    is_open: bool,
    written: u32,
}

impl PduSink<Framing> for Sink {
    fn header(&mut self, pdu: &Pdu) -> Result<Destination<'_>, FatalError> {
        match pdu {
            Pdu::ICReq(_) => self.is_open = true,
            Pdu::H2CData(data) => {
                let slice = &mut self.buffer[0];
                slice.offset = data.data_offset.into();
                return Ok(Destination::Slices(&self.buffer));
            }
            other => panic!("{other:?} was not sent"),
        }
        Ok(Destination::Nothing)
    }

    fn end(&mut self, digest: DataDigest, _data: &[u8]) -> Result<(), FatalError> {
        assert_eq!(digest, DataDigest::Good);
        self.written += 1;
        Ok(())
    }
}

impl Controller {
    fn send(now: Instant, stack: &mut Stack, socket: SocketId, pdu: &Pdu, data: PduData<'_>) {
        match stack.send_pdu::<Framing>(now, socket, pdu, data) {
            Ok(()) | Err(SocketError::Closed(_)) => {}
            Err(error) => panic!("{error}"),
        }
    }

    fn open(&mut self, now: Instant, stack: &mut Stack, socket: SocketId) {
        Self::send(now, stack, socket, &RESPONSE, PduData::None);
        let agreed = Negotiated {
            digests: Digests::BOTH,
            hpda: 0,
            cpda: 0,
            max_pdu: 1 << 20,
            commands: 8,
            offload: PduOffload::ALL,
        };
        let negotiated = stack.pdus_negotiated(now, socket, agreed.seen_by(Role::Controller));
        negotiated.expect("between PDUs");
        let (_, slice) = self.memory.as_ref().expect("it has begun");
        stack.map_buffer(socket, TAG, &[*slice]);
        self.answered = 1;
    }

    /// With the peer's plan, what it sends, and what it must get.
    fn new() -> (Self, Plan, [Vec<u8>; 2]) {
        let host = Framing {
            sender: Role::Host,
            phase: Phase::Established,
            header_digest: true,
            data_digest: true,
            alignment: 0,
            max_pdu: 1 << 20,
        };
        let controller = Framing {
            sender: Role::Controller,
            ..host
        };
        let mut streams = [
            pdu(&REQUEST_TO_CONNECT, &Framing::initializing(Role::Host), &[]),
            pdu(&RESPONSE, &Framing::initializing(Role::Controller), &[]),
        ];
        for at in 0..REQUESTS {
            let data = message(1, at * DATA, DATA);
            streams[0].extend(pdu(&Pdu::H2CData(write(at)), &host, &data));
            let data = message(2, at * DATA, DATA);
            streams[1].extend(pdu(&Pdu::C2HData(answer(at)), &controller, &data));
        }
        let plan = Plan {
            message: PDU,
            messages: 1 + REQUESTS,
            answers: PDU,
            ..Plan::default()
        };
        (Self::default(), plan, streams)
    }
}

impl Protocol for Controller {
    fn begin(&mut self, now: Instant, stack: &mut Stack, socket: SocketId) {
        let started = stack.start_pdus(now, socket, opening(Role::Controller));
        started.expect("connected");
        let len = REQUESTS * DATA;
        let memory = Arc::new(Region::anonymous(len as usize));
        let region = stack.register(Arc::clone(&memory), "memory");
        let region = region.expect("an id");
        let slice = Slice {
            region,
            offset: 0,
            len,
        };
        self.sink.buffer = vec![Slice { len: DATA, ..slice }];
        self.memory = Some((memory, slice));
    }

    fn talk(&mut self, now: Instant, stack: &mut Stack, socket: SocketId) -> bool {
        let mut moved = false;
        while let Ok(1..) = stack.receive_pdus(now, socket, &mut self.sink) {
            moved = true;
        }
        if self.sink.is_open && self.answered == 0 {
            self.open(now, stack, socket);
            moved = true;
        }
        while self.answered > 0 && self.answered <= self.sink.written {
            let at = self.answered - 1;
            let data = message(2, at * DATA, DATA);
            let pdu = Pdu::C2HData(answer(at));
            Self::send(now, stack, socket, &pdu, PduData::Bytes(&data));
            self.answered += 1;
            moved = true;
        }
        moved
    }

    fn is_done(&self) -> bool {
        let is_done = self.answered == 1 + REQUESTS;
        if let Some((memory, slice)) = self.memory.as_ref().filter(|_| is_done) {
            let mut written = vec![0; slice.len as usize];
            assert!(memory.read(0, &mut written));
            assert_eq!(written, message(1, 0, slice.len));
        }
        is_done
    }
}

const REQUEST_TO_CONNECT: Pdu = Pdu::ICReq(ICReq {
    pfv: 0,
    hpda: 0,
    digests: Digests::BOTH,
    max_r2t: 0,
});
const RESPONSE: Pdu = Pdu::ICResp(ICResp {
    pfv: 0,
    cpda: 0,
    digests: Digests::BOTH,
    max_h2c_data: 1 << 20,
});

fn write(at: u32) -> H2CData {
    H2CData {
        cccid: 7,
        ttag: TAG,
        data_offset: at * DATA,
        data_len: DATA,
        last: false,
    }
}

fn answer(at: u32) -> C2HData {
    C2HData {
        cccid: 7,
        data_offset: at * DATA,
        data_len: DATA,
        last: false,
        success: false,
    }
}

/// A PDU on the wire.
fn pdu(pdu: &Pdu, framing: &Framing, data: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; MAX_HEADER_LEN];
    let len = pdu.emit(framing, &mut bytes);
    bytes.truncate(len);
    if !data.is_empty() {
        bytes.extend(Crc32c::of(&bytes).to_le_bytes());
        bytes.extend(data);
        bytes.extend(Crc32c::of(data).to_le_bytes());
    }
    assert_eq!(bytes.len() as u32, PDU);
    bytes
}

/// What has happened in all runs.
#[derive(Debug, Default)]
struct Seen {
    handoffs: u64,
    restores: u64,
    /// Packets of records and of PDUs that the NIC has transformed.
    sent: u64,
    received: u64,
}

fn run<P: Protocol>(
    moves: Moves,
    (protocol, plan, streams): (P, Plan, [Vec<u8>; 2]),
    choices: &mut Choices<'_>,
    tell: bool,
    seen: &mut Seen,
) {
    let server = Server {
        listener: None,
        socket: None,
        protocol,
        moves,
        moved: Moved::default(),
        is_closed: false,
        closed: None,
    };
    let expected = streams[1].len() as u32;
    let mut world = World::new(host::Accel::NONE, [plan, Plan::default()], server, |_| {});
    world.is_strict = true;
    let address = (HOST_IP, 80).into();
    let listener = world.stack.listen(address, ListenOptions::default());
    world.app.listener = Some(listener.expect("the port is free"));
    if tell {
        world.keep_log();
    }
    world.settle_idle();
    world.connect_with(streams.map(|bytes| Bytes::Given(bytes.into())));
    world.run(choices, |world| {
        let is_over = world.peers[0].as_ref().is_some_and(|peer| peer.is_over());
        is_over && world.app.is_closed && world.stack.sockets().count() == 1
    });
    world.settle_idle();
    judge(&world, expected);
    let counters = world.nic_counters();
    seen.handoffs += counters.toe_handoffs;
    seen.restores += counters.toe_restored_asked;
    seen.sent +=
        counters.named("tx_tls_encrypted_packets") + counters.named("tx_nvmeotcp_digest_packets");
    seen.received +=
        counters.named("rx_tls_decrypted_packets") + counters.named("rx_nvmeotcp_packets");
}

/// What must hold at the end, whatever came in between.
fn judge<P: Protocol>(world: &World<Server<P>>, expected: u32) {
    let story = || world.story();
    let peer = world.peers[0].as_ref().expect("it was there");
    assert_eq!(peer.received, expected, "{}", story());
    assert!(peer.saw_fin, "{}", story());
    let graceful = matches!(peer.ended, None | Some(tcp::CloseReason::Graceful))
        && matches!(world.app.closed, None | Some(CloseReason::Graceful));
    assert!(graceful, "{:?} {}", world.app.closed, story());
    if !world.is_disturbed {
        let again = (peer.resent, world.repeated, world.answered_twice);
        assert_eq!(again, (0, 0, 0), "{}", story());
    }
    let (owners, counters) = (&world.wires[0].owners, world.nic_counters());
    let changes = 2 * counters.toe_handoffs;
    assert!(
        owners.len() as u64 <= 1 + changes,
        "{owners:?}\n{}",
        story()
    );
    assert_eq!(counters.toe_connections, 0, "{}", story());
}

/// Each place to hand it off, and each to take it back. Answers how many runs that were, too.
fn everywhere<P: Protocol>(new: impl Fn() -> (P, Plan, [Vec<u8>; 2])) -> (Seen, u64) {
    let (mut seen, mut runs) = (Seen::default(), 0);
    for hand_off in 0..4 {
        for restore in [None, Some(0), Some(1), Some(2), Some(3), Some(5)] {
            let moves = Moves {
                hand_off,
                restore,
                again: restore.is_some_and(|after| after % 2 == 1),
            };
            let explored = explore_all(1, |choices, tell| {
                run(moves, new(), choices, tell, &mut seen);
            });
            runs += explored.runs;
        }
    }
    (seen, runs)
}

/// Many are handed off and taken back, and the NIC goes on with their contexts.
fn assert_worth_it(seen: &Seen, runs: u64) {
    assert!(
        seen.handoffs > runs / 2 && seen.restores > runs / 4,
        "{runs} runs, {seen:?}"
    );
    assert!(
        seen.sent > 2 * runs && seen.received > runs / 2,
        "{runs} runs, {seen:?}"
    );
}

#[test]
fn with_a_context_of_tls() {
    let (seen, runs) = everywhere(Records::new);
    assert_worth_it(&seen, runs);
}

#[test]
fn with_a_context_of_nvme() {
    let (seen, runs) = everywhere(Controller::new);
    assert_worth_it(&seen, runs);
}
