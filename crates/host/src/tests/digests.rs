//! Digests of PDUs whose context fails.

use std::sync::Arc;
use std::time::Duration;

use nic::ring::{Region, RegionId, Slice};
use testkit::pattern;
use wire::SeqNum;
use wire::nvme::{C2HData, ICReq, ICResp};

use super::contexts::fail_contexts;
use super::pair::{CLIENT, Pair, SERVER, lossy};
use crate::SocketId;
use crate::nvme::{Digests, FatalError, Framing, Negotiated, Pdu, PduOffload, Role, opening};
use crate::pdus::{DataDigest, Destination, PduData, PduSink};

const ROLES: [Role; 2] = [Role::Host, Role::Controller];

/// One end of a connection, with memory of its own.
pub struct Side {
    pub id: SocketId,
    pub memory: Arc<Region>,
    pub sink: Sink,
}

/// Data go to the same place of the memory as in the command's.
pub struct Sink {
    pub region: RegionId,
    slices: Vec<Slice>,
    pub headers: u32,
    pub ends: Vec<DataDigest>,
}

impl PduSink<Framing> for Sink {
    fn header(&mut self, pdu: &Pdu) -> Result<Destination<'_>, FatalError> {
        self.headers += 1;
        let Pdu::C2HData(data) = pdu else {
            return Ok(Destination::Nothing);
        };
        self.slices = vec![Slice {
            region: self.region,
            offset: u64::from(data.data_offset),
            len: data.data_len,
        }];
        Ok(Destination::Slices(&self.slices))
    }

    fn end(&mut self, digest: DataDigest, _: &[u8]) -> Result<(), FatalError> {
        self.ends.push(digest);
        Ok(())
    }
}

impl Side {
    pub fn start(pair: &mut Pair, at: usize, id: SocketId) -> Self {
        let memory = Arc::new(Region::anonymous(1 << 20));
        let (now, stack) = (pair.now, pair.stack(at));
        let region = stack.register(Arc::clone(&memory), "memory");
        let started = stack.start_pdus(now, id, opening(ROLES[at]));
        started.expect("connected");
        let sink = Sink {
            region: region.expect("an id"),
            slices: Vec::new(),
            headers: 0,
            ends: Vec::new(),
        };
        Self { id, memory, sink }
    }
}

fn send(pair: &mut Pair, sides: &[Side; 2], from: usize, pdu: &Pdu, data: PduData<'_>) {
    let (now, id) = (pair.now, sides[from].id);
    let sent = pair.stack(from).send_pdu::<Framing>(now, id, pdu, data);
    assert_eq!(sent, Ok(()));
}

/// Takes in what comes to both sides, until `done`.
fn receive_until(pair: &mut Pair, sides: &mut [Side; 2], mut done: impl FnMut(&[Side; 2]) -> bool) {
    let came = pair.run_until(Duration::from_secs(600), |pair| {
        for (at, side) in sides.iter_mut().enumerate() {
            let now = pair.now;
            let received = pair.stack(at).receive_pdus(now, side.id, &mut side.sink);
            received.expect("connected");
        }
        done(sides)
    });
    assert!(came, "nothing has come for long");
}

/// A connection on which both sides have agreed on digests and on all that the NICs can do.
fn connected(pair: &mut Pair, tls: bool) -> [Side; 2] {
    let (client, server) = if tls { pair.secure() } else { pair.connect() };
    let mut sides = [
        Side::start(pair, CLIENT, client),
        Side::start(pair, SERVER, server),
    ];
    let digests = Digests::BOTH;
    let agreed = Negotiated {
        digests,
        hpda: 0,
        cpda: 0,
        max_pdu: 2 << 20,
        commands: 16,
        offload: PduOffload::ALL,
    };
    let request = Pdu::ICReq(ICReq {
        pfv: 0,
        hpda: 0,
        digests,
        max_r2t: 0,
    });
    let response = Pdu::ICResp(ICResp {
        pfv: 0,
        cpda: 0,
        digests,
        max_h2c_data: 1 << 20,
    });
    for (at, pdu) in [(CLIENT, request), (SERVER, response)] {
        let other = 1 - at;
        send(pair, &sides, at, &pdu, PduData::None);
        receive_until(pair, &mut sides, |sides| sides[other].sink.headers == 1);
    }
    for at in [SERVER, CLIENT] {
        let (now, id) = (pair.now, sides[at].id);
        let negotiated = pair
            .stack(at)
            .pdus_negotiated(now, id, agreed.seen_by(ROLES[at]));
        negotiated.expect("between PDUs");
    }
    sides
}

/// The server has sent so many bytes in its PDUs, all of which are acknowledged.
fn has_sent(pair: &mut Pair, server: SocketId, bytes: u32) {
    let transport = pair.stack(SERVER).transport_mut();
    let socket = transport.sockets.get_mut(server).expect("open");
    let spans = &mut socket.pdus.as_mut().expect("PDUs").sending.spans;
    spans.push(SeqNum(0), SeqNum(0), bytes);
    spans.forget_before(spans.end());
}

#[test]
fn software_makes_the_digests_of_a_context_that_failed() {
    for (tls, loss, sent) in [
        (false, 0.0, 0),
        (false, 0.02, 0),
        (true, 0.0, 0),
        (true, 0.02, 0),
        // A position that does not compare with the first one.
        (true, 0.0, 3 << 30),
    ] {
        let mut pair = Pair::new();
        let mut sides = connected(&mut pair, tls);
        has_sent(&mut pair, sides[SERVER].id, sent);
        pair.wire = lossy(SERVER, loss, loss, 21);
        let data = pattern(240_000);
        assert!(sides[SERVER].memory.write(0, &data));
        for n in 0..12 {
            let pdu = Pdu::C2HData(C2HData {
                cccid: 0,
                data_offset: n * 20_000,
                data_len: 20_000,
                last: true,
                success: false,
            });
            let slice = Slice {
                region: sides[SERVER].sink.region,
                offset: u64::from(n) * 20_000,
                len: 20_000,
            };
            // A record of memory that may change is never encrypted by both if the NIC has sent a part of it.
            let bytes = &data[n as usize * 20_000..][..20_000];
            let sent = match tls {
                true => PduData::Bytes(bytes),
                false => PduData::Slices(&[slice]),
            };
            send(&mut pair, &sides, SERVER, &pdu, sent);
            if n == 5 {
                pair.step();
            }
        }
        // A part is out, the rest is queued for a context that then fails.
        fail_contexts(&mut pair);
        receive_until(&mut pair, &mut sides, |sides| {
            sides[CLIENT].sink.ends.len() == 12
        });
        assert_eq!(sides[CLIENT].sink.ends, [DataDigest::Good; 12]);
        let mut read = vec![0; data.len()];
        assert!(sides[CLIENT].memory.read(0, &mut read));
        assert!(read == data);
        assert!(pair.counter(SERVER, "NvmeTcpTxPdusFallback") > 0);
    }
}
