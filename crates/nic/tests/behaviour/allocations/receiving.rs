//! Nothing is allocated per received packet or command once flows are running: offload, placement, loss, reordering, search, merging, mapping
//! and unmapping included.

use std::iter::repeat_n;

use l5p::Layers;
use l5p::nvme::{Parameters, Role};
use nic::ring::{FunctionConfig, InnerPlace, RecvDescriptor};
use testkit::allocations;
use testkit::bare::{CONTEXT, Memory, Rig, function_config, nic_config};
use testkit::fixtures::{MSS, SUITES, aes_128_gcm, crypto, flow, nvme};
use testkit::frames::packets;
use testkit::pdus::{PduStream, data};
use testkit::records::Records;
use wire::SeqNum;

const TAGS: u16 = 64;
const DATA: u32 = 16_384;
const PDUS: u16 = 400;

/// PDUs, records, or PDUs in records.
struct Stream {
    pdus: Option<PduStream>,
    records: Option<Records>,
}

impl Stream {
    fn wire(&self) -> &[u8] {
        let records = self.records.as_ref().map(|records| &records.wire);
        let pdus = self.pdus.as_ref().map(|pdus| &pdus.wire);
        records.or(pdus).expect("one of both")
    }

    fn layers(&self) -> Layers {
        let pdus = self.pdus.as_ref().map(|pdus| &pdus.parameters);
        match (&self.records, pdus) {
            (Some(records), Some(pdus)) => Layers::of(&records.crypto).carrying(pdus),
            (Some(records), None) => Layers::of(&records.crypto),
            (None, pdus) => Layers::of(pdus.expect("one of both")),
        }
    }

    /// The index of the message that begins there.
    fn answer(&self, tcpsn: SeqNum, inner: Option<InnerPlace>) -> Option<u64> {
        let at = tcpsn.0 as usize;
        let pdu_at = |at| self.pdus.as_ref()?.index_at(at).map(|index| index as u64);
        match (&self.records, inner) {
            (None, None) => pdu_at(at),
            (Some(records), None) => records.index_at(at),
            (Some(records), Some(InnerPlace { offset, .. })) => {
                let record = records.index_at(at)? as usize;
                pdu_at(record * RECORD + offset as usize)
            }
            (None, Some(_)) => None,
        }
    }
}

/// Content bytes of a record with PDUs, a few of which are as long as a PDU.
const RECORD: usize = 4000;

struct Receiver {
    rig: Rig,
    blocks: Memory,
    stream: Stream,
    asked: u32,
    offloaded: u32,
}

impl Receiver {
    fn new(stream: Stream) -> Receiver {
        let function = FunctionConfig {
            receive_entries: 2048,
            ..function_config()
        };
        let mut rig = Rig::filled(nic_config(), function);
        let blocks = Memory::register(&rig.host, usize::from(TAGS) * DATA as usize);
        let flow = flow(5000).reversed();
        rig.offload(CONTEXT, &flow, SeqNum(0), &stream.layers());
        let mut receiver = Receiver {
            rig,
            blocks,
            stream,
            asked: 0,
            offloaded: 0,
        };
        if receiver.stream.pdus.is_some() {
            (0..TAGS).for_each(|tag| receiver.map(tag));
        }
        receiver
    }

    fn map(&mut self, tag: u16) {
        let at = u64::from(tag) * u64::from(DATA);
        let slices = [
            self.blocks.slice(at, 4096),
            self.blocks.slice(at + 4096, DATA - 4096),
        ];
        self.rig.map(CONTEXT, tag, &slices);
    }

    fn flush(&mut self) {
        self.rig.nic.flush(self.rig.now);
        while let Some(descriptor) = self.rig.host.pop(0) {
            match descriptor {
                RecvDescriptor::Packet(packet) => {
                    self.offloaded += u32::from(packet.processed.by(0));
                }
                RecvDescriptor::Placed { .. } => {}
                RecvDescriptor::ResyncRequest { tcpsn, inner, .. } => {
                    self.asked += 1;
                    let index = self.stream.answer(tcpsn, inner);
                    self.rig.answer(&descriptor, index);
                }
                other => panic!("{other:?}"),
            }
        }
        self.rig.host.refill();
        self.rig.work();
    }

    /// Receives the stream, all but the first quarter of it without an allocation. Does `before` each packet what it says.
    fn run(&mut self, before: impl Fn(&mut Receiver, usize)) {
        let frames = packets(&flow(5000).reversed(), SeqNum(0), self.stream.wire(), MSS);
        let mut allocated = 0;
        for (n, frame) in frames.iter().enumerate() {
            if n == frames.len() / 4 {
                allocated = allocations();
            }
            before(self, n);
            // Every 25th packet comes ten packets later, every 60th is lost for good.
            if n % 60 == 59 || n % 25 == 0 {
                continue;
            }
            self.rig.receive(frame);
            if n % 25 == 10 && n > 25 {
                self.rig.receive(&frames[n - 10]);
            }
            if n % 16 == 0 {
                self.flush();
            }
        }
        self.flush();
        assert_eq!(allocations() - allocated, 0);
        assert!(self.asked > 0);
    }
}

#[test]
fn a_running_receiver_does_not_allocate() {
    for suite in [SUITES[3], SUITES[5]] {
        let records = Some(Records::of(&crypto(suite), repeat_n([7; 16384], 200)));
        let mut receiver = Receiver::new(Stream {
            pdus: None,
            records,
        });
        receiver.run(|_, _| {});
        assert!(receiver.offloaded > 50, "{suite:?}");
    }
}

fn pdus() -> PduStream {
    let parameters = Parameters {
        commands: TAGS,
        ..nvme(Role::Controller, true, true)
    };
    let kinds: Vec<_> = (0..PDUS).map(|n| data(n % TAGS, 0, DATA)).collect();
    PduStream::new(&parameters, &kinds)
}

fn place(stream: Stream) {
    let mut receiver = Receiver::new(stream);
    receiver.run(|receiver, n| {
        if n * MSS % DATA as usize <= MSS {
            // The buffer of a command that is done is mapped for another one.
            let done = n * MSS / DATA as usize + usize::from(TAGS) - 3;
            let tag = (done % usize::from(TAGS)) as u16;
            receiver.rig.unmap(CONTEXT, tag);
            receiver.map(tag);
        }
    });
    let counters = receiver.rig.nic.counters();
    let all = u64::from(PDUS) * u64::from(DATA);
    let placed = counters.named("rx_nvmeotcp_bytes");
    assert!(placed > all / 4, "{placed} of {all}");
    assert!(counters.rx_lro_packets > 0 && counters.named("rx_nvmeotcp_late_packets") > 0);
}

#[test]
fn placing_does_not_allocate() {
    place(Stream {
        pdus: Some(pdus()),
        records: None,
    });
}

#[test]
fn placing_inside_of_tls_does_not_allocate() {
    let pdus = pdus();
    let records = Records::of(&aes_128_gcm(), pdus.wire.chunks(RECORD));
    place(Stream {
        pdus: Some(pdus),
        records: Some(records),
    });
}
