use l5p::tls::ICV_LEN;
use proptest::prelude::*;
use testkit::bare::{CONTEXT, Message};
use testkit::fixtures::SUITES;
use wire::{SeqNum, packet};

use super::stream::*;
use super::*;
use nic::WireCapabilities;
use nic::ring::{SendFlags, Verify};

/// One action of a sender, in fractions of what is possible.
#[derive(Debug, Clone, Copy)]
enum Action {
    /// Sends so many new bytes.
    New { bytes: u32, mss: u16 },
    /// Sends a range of what was sent again.
    Again {
        at: f64,
        share: f64,
        mss: u16,
        /// Beside where the context is, as far as that is possible.
        seek: bool,
    },
}

fn action() -> impl Strategy<Value = Action> {
    let mss = prop_oneof![100u16..1440, Just(1448)];
    prop_oneof![
        3 => (1u32..20_000, mss.clone()).prop_map(|(bytes, mss)| Action::New { bytes, mss }),
        2 => (0.0..1.0, 0.0..1.0, mss, any::<bool>())
            .prop_map(|(at, share, mss, seek)| Action::Again { at, share, mss, seek }),
    ]
}

/// A driver that shadows the context, as Autonomous NIC offloads §4.2 has it.
struct Driver {
    rig: Rig,
    stream: Stream,
    /// Where the device's context is.
    shadow: SeqNum,
    /// End of what was ever sent.
    sent: SeqNum,
    mutable: bool,
    cut: u32,
}

impl Driver {
    fn send(&mut self, from: SeqNum, to: SeqNum, mss: u16, seek: bool) {
        let mut at = from;
        while at.before(to) {
            let record = *self.stream.record_at(at).unwrap();
            let end = record.start + record.len;
            let before_icv = (end - ICV_LEN as u32).min(to);
            let seekable = seek && self.stream.crypto.is_seekable() && !self.mutable;
            if seekable && at.before(before_icv) && before_icv.at_or_before(self.sent) {
                self.rig.recover(&record, at, &[], Verify::Seek);
                let slices = self.stream.slices(&self.rig, at, before_icv, self.cut);
                self.rig
                    .send(at, mss, Some(CONTEXT), SendFlags::NONE, &slices);
                at = before_icv;
                continue;
            }
            // What is verified is one record, or the part of one that was sent.
            let known = at.before(self.sent) && self.mutable;
            let limit = if known {
                end.min(self.sent).min(to)
            } else {
                to
            };
            if at != self.shadow || known {
                self.recover(record, at);
            }
            let flags = match self.mutable {
                true => SendFlags::MUTABLE_SOURCE,
                false => SendFlags::NONE,
            };
            let slices = self.stream.slices(&self.rig, at, limit, self.cut);
            self.rig.send(at, mss, Some(CONTEXT), flags, &slices);
            at = limit;
            self.shadow = limit;
            self.sent = self.sent.max(limit);
        }
    }

    fn recover(&mut self, record: Message, resume: SeqNum) {
        let end = record.start + record.len;
        let (verify, to) = if !self.mutable || resume == record.start && !resume.before(self.sent) {
            (Verify::None, resume)
        } else if end.at_or_before(self.sent) {
            (Verify::WholeMessage, end)
        } else {
            (Verify::Frontier, self.sent)
        };
        let prefix = self.stream.slices(&self.rig, record.start, to, self.cut);
        self.rig.recover(&record, resume, &prefix, verify);
    }
}

fn run(
    suite: usize,
    mutable: bool,
    wire: WireCapabilities,
    sizes: &[usize],
    start: u32,
    cut: u32,
    actions: &[Action],
) {
    let rig = on_wire(wire);
    let start = SeqNum(start);
    let stream = Stream::new(&rig, SUITES[suite], start, sizes);
    let mut driver = Driver {
        rig,
        stream,
        shadow: start,
        sent: start,
        mutable,
        cut,
    };
    driver.rig.create(start, &Layers::of(&driver.stream.crypto));
    let mut covered = start;
    for action in actions {
        let left = driver.sent.distance_to(driver.stream.end());
        let (from, to, mss, seek) = match *action {
            Action::New { bytes, mss } => (driver.sent, driver.sent + bytes.min(left), mss, false),
            Action::Again {
                at,
                share,
                mss,
                seek,
            } => {
                let sent = start.distance_to(driver.sent);
                let from = (f64::from(sent) * at) as u32;
                let len = (f64::from(sent - from) * share) as u32;
                let len = len.min(40_000);
                (start + from, start + from + len, mss, seek)
            }
        };
        driver.send(from, to, mss, seek);
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
        covered = covered.max(to);
    }
    let counters = driver.rig.nic.counters();
    assert_eq!(counters.tx_errors, 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// Whatever the records, the segments and what is sent again: the wire carries what software would have sent.
    #[test]
    fn every_segment_is_what_software_would_send(
        suite in 0..SUITES.len(),
        mutable in any::<bool>(),
        tso in any::<bool>(),
        sizes in prop::collection::vec(prop_oneof![0usize..40, 1usize..3000, Just(16_384)], 1..8),
        start in prop_oneof![any::<u32>(), Just(u32::MAX - 5000)],
        cut in prop_oneof![1u32..200, 1000u32..9000],
        actions in prop::collection::vec(action(), 1..20),
    ) {
        let wire = WireCapabilities { tso, checksum: tso };
        run(suite, mutable, wire, &sizes, start, cut, &actions);
    }
}

#[test]
fn recovery_at_every_byte_of_a_record() {
    for (suite, _) in SUITES.iter().enumerate() {
        for mutable in [false, true] {
            let sizes = [30, 40, 30];
            let total = 30 + 40 + 30 + 3 * 40;
            let mut actions = vec![Action::New {
                bytes: 120,
                mss: 1448,
            }];
            actions.extend((0..total).map(|n| Action::Again {
                at: f64::from(n) / f64::from(total),
                share: 0.7,
                mss: 13,
                seek: n % 2 == 0,
            }));
            actions.push(Action::New {
                bytes: 10_000,
                mss: 7,
            });
            run(
                suite,
                mutable,
                WireCapabilities::default(),
                &sizes,
                77,
                11,
                &actions,
            );
        }
    }
}

#[test]
fn recovery_is_counted_by_the_names_of_mlx5() {
    let mut rig = plain();
    let stream = Stream::new(&rig, SUITES[3], SeqNum(0), &[1000, 1000]);
    rig.create(SeqNum(0), &Layers::of(&stream.crypto));
    let all = stream.slices(&rig, stream.start, stream.end(), 5000);
    rig.send(SeqNum(0), 500, Some(CONTEXT), SendFlags::NONE, &all);
    let resume = stream.records[1].start + 500;
    let prefix = stream.slices(&rig, stream.records[1].start, resume, 5000);
    rig.recover(&stream.records[1], resume, &prefix, Verify::None);
    let again = stream.slices(&rig, resume, stream.end(), 5000);
    rig.send(resume, 500, Some(CONTEXT), SendFlags::NONE, &again);
    assert_eq!(rig.segments().len(), 5 + 2);
    let counters = rig.nic.counters();
    assert_eq!(counters.named("tx_tls_ctx"), 1);
    assert_eq!(counters.named("tx_tls_ooo"), 1);
    assert_eq!(counters.named("tx_tls_resync_bytes"), 500);
    assert_eq!(counters.pcie_recovery, 500);
    assert_eq!(counters.named("tx_tls_encrypted_packets"), 7);
    assert_eq!(
        counters.named("tx_tls_encrypted_bytes"),
        u64::from(stream.len()) + 522
    );
}

/// What most retransmissions are: nothing but their own bytes is read, and what was next is next still.
#[test]
fn the_middle_of_a_record_is_sent_again_without_its_beginning() {
    let mut rig = plain();
    let stream = Stream::new(&rig, SUITES[3], SeqNum(0), &[16_000, 16_000]);
    rig.create(SeqNum(0), &Layers::of(&stream.crypto));
    let (first, second) = (stream.records[0], stream.records[1]);
    let next = second.start + 3000;
    let sent = stream.slices(&rig, stream.start, next, 50_000);
    rig.send(SeqNum(0), 1000, Some(CONTEXT), SendFlags::NONE, &sent);
    let again = first.start + 12_000;
    rig.recover(&first, again, &[], Verify::Seek);
    let middle = stream.slices(&rig, again, again + 2000, 50_000);
    rig.send(again, 1000, Some(CONTEXT), SendFlags::NONE, &middle);
    let rest = stream.slices(&rig, next, stream.end(), 50_000);
    rig.send(next, 1000, Some(CONTEXT), SendFlags::NONE, &rest);
    stream.check_segments(&mut rig);
    let counters = rig.nic.counters();
    assert_eq!((counters.tx_errors, counters.pcie_recovery), (0, 0));
    assert_eq!(
        (counters.named("tx_tls_ooo"), counters.named("tx_tls_aside")),
        (1, 1)
    );
    assert_eq!(
        counters.pcie_payload_tx,
        u64::from(stream.len()) + 2000,
        "nothing else is read"
    );
}
