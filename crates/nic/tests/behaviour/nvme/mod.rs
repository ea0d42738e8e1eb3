//! From one NIC to another, over a link that loses, repeats, delays and damages: digests made by the one are checked by the
//! other, data are placed where the host wants them and nowhere else, and what reaches the host is what was sent.

mod link;
mod receiver;
mod sender;
mod stream;

use std::time::Instant;

use l5p::nvme::Parameters;
use l5p::tls::CryptoInfo;
use nic::WireCapabilities;
use proptest::prelude::*;
use testkit::fixtures;
use wire::SeqNum;
use wire::nvme::Role;

use link::{Action, Fate, Link};
use stream::{Batch, Io, Stream};

/// What is sent, and how.
#[derive(Debug, Clone)]
struct Case {
    parameters: Parameters,
    tls: Option<(CryptoInfo, Vec<usize>)>,
    start: u32,
    batches: Vec<Batch>,
    order: Vec<u8>,
    mutable: bool,
    wire: WireCapabilities,
}

impl Case {
    fn stream(&self) -> Stream {
        let tls = self
            .tls
            .as_ref()
            .map(|(crypto, sizes)| (crypto.clone(), &sizes[..]));
        let start = SeqNum(self.start);
        Stream::new(self.parameters, tls, start, &self.batches, &self.order)
    }

    fn run(&self, actions: &[Action], fates: &[Fate]) -> Link {
        let mut link = Link::new(self.stream(), self.mutable, self.wire, Instant::now());
        link.run(actions, fates);
        link
    }
}

fn parameters() -> impl Strategy<Value = Parameters> {
    let flags = (any::<bool>(), any::<bool>(), any::<bool>());
    (flags, prop_oneof![Just(0u8), 0u8..=31]).prop_map(
        |((controller, header_digest, data_digest), alignment)| Parameters {
            sender: match controller {
                true => Role::Controller,
                false => Role::Host,
            },
            header_digest,
            data_digest,
            alignment,
            max_pdu: 1 << 18,
            commands: 16,
        },
    )
}

/// A cipher of TLS 1.3.
fn crypto(suite: usize) -> CryptoInfo {
    fixtures::crypto(fixtures::SUITES[3 + suite])
}

fn tls() -> impl Strategy<Value = (CryptoInfo, Vec<usize>)> {
    let size = prop_oneof![1usize..100, 1000usize..5000, Just(16_384)];
    (0usize..3, prop::collection::vec(size, 1..6))
        .prop_filter("records enough for few slices", |(_, sizes)| {
            sizes.iter().sum::<usize>() / sizes.len() >= 1500
        })
        .prop_map(|(suite, sizes)| (crypto(suite), sizes))
}

fn batches() -> impl Strategy<Value = Vec<Batch>> {
    let len = prop_oneof![1u32..600, 4096u32..20_000];
    let pdu = prop_oneof![1000u32..9000, Just(u32::MAX)];
    let io = (len, pdu, 0u32..=4).prop_map(|(len, pdu, pieces)| Io { len, pdu, pieces });
    prop::collection::vec(prop::collection::vec(io, 1..5), 1..4)
}

fn case(
    tls: impl Strategy<Value = Option<(CryptoInfo, Vec<usize>)>>,
) -> impl Strategy<Value = Case> {
    (
        parameters(),
        tls,
        prop_oneof![any::<u32>(), Just(u32::MAX - 5000)],
        batches(),
        prop::collection::vec(any::<u8>(), 1..30),
        any::<bool>(),
        any::<bool>(),
    )
        .prop_map(
            |(parameters, tls, start, batches, order, mutable, tso)| Case {
                parameters,
                tls,
                start,
                batches,
                order,
                mutable,
                wire: WireCapabilities { tso, checksum: tso },
            },
        )
}

fn actions() -> impl Strategy<Value = Vec<Action>> {
    let mss = prop_oneof![200u16..1440, Just(1448)];
    let action = prop_oneof![
        3 => (1u32..30_000, mss.clone()).prop_map(|(bytes, mss)| Action::New { bytes, mss }),
        2 => (1u32..5000, mss.clone()).prop_map(|(bytes, mss)| Action::Missing { bytes, mss }),
        1 => (any::<u32>(), 1u32..5000, mss)
            .prop_map(|(from, bytes, mss)| Action::Again { from, bytes, mss }),
    ];
    prop::collection::vec(action, 0..25)
}

/// Most frames pass.
fn fates(damage: bool) -> impl Strategy<Value = Vec<Fate>> {
    let damage = if damage { 1 } else { 0 };
    let fate = prop_oneof![
        30 => Just(Fate::Pass),
        2 => Just(Fate::Lose),
        1 => Just(Fate::Twice),
        2 => (1u8..6).prop_map(Fate::Late),
        damage => any::<u16>().prop_map(Fate::Damage),
    ];
    prop::collection::vec(fate, 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn pdus_arrive_as_they_were_sent(
        case in case(Just(None)),
        actions in actions(),
        fates in fates(false),
    ) {
        case.run(&actions, &fates);
    }

    #[test]
    fn damage_is_never_vouched_for(
        case in case(Just(None)),
        actions in actions(),
        fates in fates(true),
    ) {
        case.run(&actions, &fates);
    }

    #[test]
    fn pdus_in_tls_arrive_as_they_were_sent(
        case in case(tls().prop_map(Some)),
        actions in actions(),
        fates in fates(false),
    ) {
        case.run(&actions, &fates);
    }
}

/// Reads of 64 KiB in PDUs of 16 KiB, all of them mapped.
fn large_reads() -> Case {
    let io = Io {
        len: 65_536,
        pdu: 16_384,
        pieces: 3,
    };
    Case {
        parameters: Parameters {
            sender: Role::Controller,
            header_digest: false,
            data_digest: true,
            alignment: 0,
            max_pdu: 1 << 18,
            commands: 16,
        },
        tls: None,
        start: u32::MAX - 100_000,
        batches: vec![vec![io; 4]; 4],
        order: vec![0, 1, 2, 3, 0, 0, 1, 3, 2, 2],
        mutable: false,
        wire: WireCapabilities::default(),
    }
}

/// Shares of the data that was placed, and of the stream that was vouched for.
fn shares(link: &Link) -> (f64, f64) {
    let arrived = |at: u32| link.receiver.arrived[at as usize].expect("all has come");
    let data = link.stream.extents.iter().flat_map(|e| e.from..e.to);
    let placed = data.filter(|at| arrived(*at).placed).count();
    let vouched = (0..link.stream.len()).filter(|at| arrived(*at).digest_ok);
    let all: u32 = link.stream.ios.iter().map(|io| io.len).sum();
    (
        placed as f64 / f64::from(all),
        vouched.count() as f64 / f64::from(link.stream.len()),
    )
}

#[test]
fn in_sequence_everything_is_placed_and_vouched_for() {
    let link = large_reads().run(&[], &[]);
    assert_eq!(shares(&link), (1.0, 1.0));
    let sent = link.sender.counters();
    assert_eq!(
        sent.named("tx_nvmeotcp_digest_bytes"),
        link.stream.len().into()
    );
    assert_eq!(sent.named("tx_nvmeotcp_ooo"), 0);
}

#[test]
fn in_sequence_everything_inside_of_tls_is_placed_and_vouched_for() {
    let case = Case {
        tls: Some((crypto(0), vec![16_384, 3000])),
        ..large_reads()
    };
    let link = case.run(&[], &[]);
    assert_eq!(shares(&link), (1.0, 1.0));
    let sent = link.sender.counters();
    assert_eq!(
        sent.named("tx_nvmeotcp_digest_bytes"),
        link.stream.len().into()
    );
    assert_eq!(
        sent.named("tx_tls_encrypted_bytes"),
        link.stream.len().into()
    );
}

#[test]
fn most_is_placed_and_vouched_for_though_packets_are_lost() {
    let case = large_reads();
    let actions = [
        Action::New {
            bytes: 60_000,
            mss: 1448,
        },
        Action::Missing {
            bytes: 1448,
            mss: 1448,
        },
    ];
    let mut fates = vec![Fate::Pass; 331];
    fates[100] = Fate::Lose;
    let link = case.run(&actions.repeat(40), &fates);
    let (placed, vouched) = shares(&link);
    assert!(placed > 0.99 && vouched > 0.9, "{placed} {vouched}");
}

#[test]
fn a_lost_header_is_found_again() {
    let new = Action::New {
        bytes: 60_000,
        mss: 1448,
    };
    let missing = Action::Missing {
        bytes: 3000,
        mss: 1448,
    };
    // The second PDU begins at byte 16,412.
    let mut fates = vec![Fate::Pass; 1000];
    fates[11..13].fill(Fate::Lose);
    let link = large_reads().run(&[new, missing, new, new], &fates);
    let counters = link.receiver.counters();
    assert_eq!(counters.named("rx_nvmeotcp_resync"), 1);
    assert_eq!(counters.named("rx_nvmeotcp_resumed_late_header"), 1);
    let (placed, vouched) = shares(&link);
    assert!(placed > 0.8 && vouched > 0.8, "{placed} {vouched}");
}
