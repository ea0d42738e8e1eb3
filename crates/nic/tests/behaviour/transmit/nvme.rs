use l5p::nvme::Parameters;
use nic::WireCapabilities;
use testkit::fixtures::SUITES;
use wire::SeqNum;
use wire::nvme::Role;

use super::driver::{Action, Driver};
use super::pdus::{Shape, parameters, pdus};
use super::*;

fn action() -> impl Strategy<Value = Action> {
    let mss = prop_oneof![100u16..1440, Just(1448)];
    prop_oneof![
        3 => (1u32..20_000, mss.clone()).prop_map(|(bytes, mss)| Action::New { bytes, mss }),
        2 => (0.0..1.0, 0.0..1.0, mss).prop_map(|(at, share, mss)| Action::Again { at, share, mss, seek: false }),
    ]
}

fn shapes() -> impl Strategy<Value = Vec<Shape>> {
    let size = prop_oneof![0u32..40, 1u32..3000, Just(8192), 20_000u32..40_000];
    prop::collection::vec((any::<bool>(), size), 1..6)
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
        let (rig, start) = (on_wire(self.wire), SeqNum(self.start));
        let pdus = pdus(&self.parameters, &self.shapes);
        let mut driver = match &self.tls {
            None => Driver::of_pdus(rig, pdus, start),
            Some((suite, sizes)) => {
                Driver::of_pdus_in_records(rig, pdus, SUITES[*suite], start, sizes)
            }
        };
        (driver.mutable, driver.cut) = (self.mutable, self.cut);
        driver
    }

    fn run(&self, actions: &[Action]) -> Driver {
        let mut driver = self.driver();
        driver.run(actions);
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
                seek: false,
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
        seek: false,
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
