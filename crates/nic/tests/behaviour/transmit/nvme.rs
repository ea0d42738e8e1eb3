use std::ops::Range;

use l5p::nvme::Parameters;
use testkit::bare::{CONTEXT, Message};
use testkit::fixtures::SUITES;
use testkit::pdus::PduStream;
use wire::nvme::Role;
use wire::{SeqNum, packet};

use super::pdus::{Shape, parameters, pdus, send_bare, send_in_tls};
use super::stream::*;
use super::*;
use nic::WireCapabilities;
use nic::ring::{InnerRecover, SendFlags, Slice, Verify};

/// One action of a sender, in fractions of what is possible.
#[derive(Debug, Clone, Copy)]
enum Action {
    /// Sends so many new bytes.
    New { bytes: u32, mss: u16 },
    /// Sends a range of what was sent again.
    Again { at: f64, share: f64, mss: u16 },
}

fn action() -> impl Strategy<Value = Action> {
    let mss = prop_oneof![100u16..1440, Just(1448)];
    prop_oneof![
        3 => (1u32..20_000, mss.clone()).prop_map(|(bytes, mss)| Action::New { bytes, mss }),
        2 => (0.0..1.0, 0.0..1.0, mss).prop_map(|(at, share, mss)| Action::Again { at, share, mss }),
    ]
}

fn shapes() -> impl Strategy<Value = Vec<Shape>> {
    let size = prop_oneof![0u32..40, 1u32..3000, Just(8192), 20_000u32..40_000];
    prop::collection::vec((any::<bool>(), size), 1..6)
}

/// A driver that shadows the context, as Autonomous NIC offloads §4.2 and "NVMeTCP offload" have it.
struct Driver {
    rig: Rig,
    stream: Stream,
    pdus: PduStream,
    /// Of each record, the content in the PDUs; without TLS, nothing.
    contents: Option<Vec<Range<usize>>>,
    /// Where the device's context is.
    shadow: SeqNum,
    /// End of what was ever sent.
    sent: SeqNum,
    mutable: bool,
    cut: u32,
    /// Segments that went without the context.
    bypassed: u32,
}

impl Driver {
    fn send(&mut self, from: SeqNum, to: SeqNum, mss: u16) {
        let encrypted = self.contents.is_some();
        let mut at = from;
        while at.before(to) {
            let message = *self.stream.record_at(at).unwrap();
            // What is verified is one record, or the part of one that was sent.
            let known = encrypted && self.mutable && at.before(self.sent);
            let limit = match known {
                true => (message.start + message.len).min(self.sent).min(to),
                false => to,
            };
            let mut context = Some(CONTEXT);
            if at != self.shadow || known {
                let range = self.stream.offset(at) as usize..self.stream.offset(limit) as usize;
                if !encrypted && !self.pdus.has_digest(range) {
                    context = None;
                    self.bypassed += 1;
                } else {
                    self.recover(message, at);
                }
            }
            let flags = match self.mutable {
                true => SendFlags::MUTABLE_SOURCE,
                false => SendFlags::NONE,
            };
            let slices = self.stream.slices(&self.rig, at, limit, self.cut);
            self.rig.send(at, mss, context, flags, &slices);
            if context.is_some() {
                self.shadow = limit;
            }
            at = limit;
            self.sent = self.sent.max(limit);
        }
    }

    fn recover(&mut self, message: Message, resume: SeqNum) {
        let end = message.start + message.len;
        let first = resume == message.start && !resume.before(self.sent);
        let (verify, to) = if !self.mutable || self.contents.is_none() || first {
            (Verify::None, resume)
        } else if end.at_or_before(self.sent) {
            (Verify::WholeMessage, end)
        } else {
            (Verify::Frontier, self.sent)
        };
        let (inner, mut prefix) = self.inner(&message);
        prefix.extend(self.stream.slices(&self.rig, message.start, to, self.cut));
        self.rig
            .recover_layers(&message, resume, &prefix, verify, inner);
    }

    /// The PDU with the first byte of a record's content, and where its bytes before that are.
    fn inner(&self, record: &Message) -> (Option<InnerRecover>, Vec<Slice>) {
        let Some(contents) = &self.contents else {
            return (None, Vec::new());
        };
        let n = (record.index - self.stream.records[0].index) as usize;
        let first = contents[n].start;
        let index = self.pdus.number_at(first);
        let (start, len) = match self.pdus.pdus.get(index) {
            Some(pdu) => (pdu.all.start, pdu.all.len()),
            None => (first, 24),
        };
        let mut prefix = Vec::new();
        for (content, record) in contents.iter().zip(&self.stream.records) {
            let (from, to) = (content.start.max(start), content.end.min(first));
            if from < to {
                let at = self.stream.offset(record.start) + self.header_len();
                let at = u64::from(at) + (from - content.start) as u64;
                prefix.push(self.rig.slice(at, (to - from) as u32));
            }
        }
        let inner = InnerRecover {
            index: index as u64,
            len: len as u32,
            offset: (first - start) as u32,
        };
        (Some(inner), prefix)
    }

    /// Bytes of a record before its content.
    fn header_len(&self) -> u32 {
        let writer = l5p::tls::Writer::new(self.stream.crypto.clone());
        let layout = writer.record_layout(l5p::tls::ContentType::APPLICATION_DATA, 1);
        layout.header().len() as u32
    }
}

/// What a run is about.
#[derive(Debug, Clone)]
struct Case {
    parameters: Parameters,
    /// The suite, and the sizes of records, if there is TLS around.
    tls: Option<(usize, Vec<usize>)>,
    mutable: bool,
    wire: WireCapabilities,
    shapes: Vec<Shape>,
    start: u32,
    cut: u32,
}

impl Case {
    fn driver(&self) -> Driver {
        let mut rig = on_wire(self.wire);
        let pdus = pdus(&self.parameters, &self.shapes);
        let start = SeqNum(self.start);
        let (stream, contents) = match &self.tls {
            None => (send_bare(&pdus, &mut rig, start), None),
            Some((suite, sizes)) => {
                let suite = SUITES[*suite];
                let (stream, contents) = send_in_tls(&pdus, &mut rig, suite, start, sizes);
                (stream, Some(contents))
            }
        };
        Driver {
            rig,
            stream,
            pdus,
            contents,
            shadow: start,
            sent: start,
            mutable: self.mutable,
            cut: self.cut,
            bypassed: 0,
        }
    }

    fn run(&self, actions: &[Action]) -> Driver {
        let mut driver = self.driver();
        let start = driver.stream.start;
        for action in actions {
            let left = driver.sent.distance_to(driver.stream.end());
            let (from, to, mss) = match *action {
                Action::New { bytes, mss } => (driver.sent, driver.sent + bytes.min(left), mss),
                Action::Again { at, share, mss } => {
                    let sent = start.distance_to(driver.sent);
                    let from = (f64::from(sent) * at) as u32;
                    let len = (f64::from(sent - from) * share) as u32;
                    (start + from, start + from + len.min(40_000), mss)
                }
            };
            driver.send(from, to, mss);
            let mut at = from;
            for (frame, _) in driver.rig.frames() {
                let parsed = packet::parse(&frame).unwrap();
                let payload = parsed.payload(&frame);
                assert_eq!(parsed.tcp.seq, at, "frames in order, none missing");
                driver.stream.check(&parsed, payload);
                at += payload.len() as u32;
            }
            assert_eq!(driver.rig.host.errors(), []);
            assert_eq!(at, to, "all was sent");
        }
        assert_eq!(driver.rig.nic.counters().tx_errors, 0);
        driver
    }
}

fn case() -> impl Strategy<Value = Case> {
    let record = prop_oneof![0usize..40, 1000usize..4000, Just(16_384)];
    let tls = (0..SUITES.len(), prop::collection::vec(record, 1..12));
    (
        (any::<bool>(), any::<bool>(), any::<bool>(), 0u8..=31),
        prop::option::of(tls),
        (any::<bool>(), any::<bool>()),
        shapes(),
        prop_oneof![any::<u32>(), Just(u32::MAX - 5000)],
        prop_oneof![1u32..200, 1000u32..9000],
    )
        .prop_map(|(nvme, tls, (mutable, tso), shapes, start, cut)| {
            let (controller, header_digest, data_digest, alignment) = nvme;
            let sender = if controller {
                Role::Controller
            } else {
                Role::Host
            };
            Case {
                parameters: Parameters {
                    alignment,
                    ..parameters(sender, header_digest, data_digest)
                },
                tls,
                mutable,
                wire: WireCapabilities { tso, checksum: tso },
                shapes,
                start,
                cut,
            }
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// Whatever the PDUs, the records around them, the segments and what is sent again: the wire carries what software
    /// would have sent.
    #[test]
    fn every_segment_is_what_software_would_send(
        case in case(),
        actions in prop::collection::vec(action(), 1..20),
    ) {
        case.run(&actions);
    }
}

fn plain(shapes: &[Shape]) -> Case {
    Case {
        parameters: parameters(Role::Controller, true, true),
        tls: None,
        mutable: false,
        wire: WireCapabilities::default(),
        shapes: shapes.to_vec(),
        start: 77,
        cut: 5000,
    }
}

#[test]
fn recovery_at_every_byte_of_a_pdu() {
    let stacks = [
        None,
        Some((3, vec![20, 60, 10, 0, 1, 90])),
        Some((1, vec![70])),
    ];
    for tls in stacks {
        for mutable in [false, true] {
            let case = Case {
                tls: tls.clone(),
                mutable,
                cut: 11,
                ..plain(&[(false, 30), (true, 0), (false, 40), (false, 30)])
            };
            let total = case.driver().stream.len();
            let mut actions = vec![Action::New {
                bytes: 170,
                mss: 1448,
            }];
            actions.extend((0..total).map(|n| Action::Again {
                at: f64::from(n) / f64::from(total),
                share: 0.7,
                mss: 13,
            }));
            actions.push(Action::New {
                bytes: 10_000,
                mss: 7,
            });
            case.run(&actions);
        }
    }
}

#[test]
fn the_middle_of_a_pdu_goes_again_without_its_context() {
    let case = plain(&[(false, 30_000)]);
    let again = |at, share| Action::Again {
        at,
        share,
        mss: 1448,
    };
    let new = |bytes| Action::New { bytes, mss: 1448 };
    let driver = case.run(&[new(20_000), again(0.3, 0.3), again(0.0, 0.5), new(20_000)]);
    assert_eq!(driver.bypassed, 2);
    let counters = driver.rig.nic.counters();
    assert_eq!(
        counters.named("tx_nvmeotcp_ooo"),
        0,
        "new data goes on where it was"
    );
    assert_eq!(counters.pcie_recovery, 0);
    assert_eq!(
        counters.named("tx_nvmeotcp_digest_bytes"),
        u64::from(driver.stream.len())
    );

    let driver = case.run(&[new(20_000), new(20_000), again(0.9, 1.0)]);
    let counters = driver.rig.nic.counters();
    assert_eq!(
        counters.named("tx_nvmeotcp_ooo"),
        1,
        "the digest needs the PDU"
    );
    let prefix = (f64::from(driver.stream.len()) * 0.9) as u64;
    assert_eq!(counters.named("tx_nvmeotcp_resync_bytes"), prefix);
    assert_eq!(
        counters.named("tx_tls_ooo") + counters.named("tx_tls_resync_bytes"),
        0
    );
}

#[test]
fn digests_are_counted_beside_encryption() {
    let case = Case {
        tls: Some((3, vec![1000, 1000])),
        ..plain(&[(false, 1500)])
    };
    let driver = case.run(&[Action::New {
        bytes: 10_000,
        mss: 500,
    }]);
    let counters = driver.rig.nic.counters();
    let bytes = u64::from(driver.stream.len());
    assert_eq!(
        (
            counters.named("tx_tls_ctx"),
            counters.named("tx_nvmeotcp_sk_add")
        ),
        (1, 1)
    );
    assert_eq!(counters.named("tx_tls_encrypted_bytes"), bytes);
    assert_eq!(counters.named("tx_nvmeotcp_digest_bytes"), bytes);
    assert_eq!(
        counters.named("tx_nvmeotcp_digest_packets"),
        bytes.div_ceil(500)
    );
    assert_eq!(counters.pcie_payload_tx, bytes, "read once");
}
