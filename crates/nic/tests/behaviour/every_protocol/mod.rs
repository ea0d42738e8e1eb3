//! Every protocol in the list, alone and inside every one that carries others: whatever order packets come in, what the NIC says is what
//! software finds, data are placed where they belong and once, and the offload comes back; and what it sends, again or not, is what software would send.
//!
//! A protocol is tested here by being in the list (and by its [`samples::Sample`]).

mod receiver;
mod samples;
mod sender;
mod stream;

use l5p::{Direction, Layers, PROTOCOLS, Parameters, Protocol, ProtocolId, Visitor, visit};
use proptest::prelude::*;
use wire::SeqNum;

use receiver::Receiver;
use samples::{engine, sample};
use sender::Sender;
use stream::Stream;

/// Every protocol alone, and every one that replaces nothing inside every one that carries others.
fn stacks() -> Vec<Vec<ProtocolId>> {
    let ids = || PROTOCOLS.iter().map(|info| info.id);
    let mut stacks: Vec<Vec<ProtocolId>> = ids().map(|id| vec![id]).collect();
    for outer in ids().filter(|id| carries(*id)) {
        let inner = PROTOCOLS.iter().filter(|info| !info.replaces);
        stacks.extend(inner.map(|info| vec![outer, info.id]));
    }
    stacks
}

fn carries(id: ProtocolId) -> bool {
    let traits = Traits::of(&sample(id).layers(), 0);
    traits.carries
}

/// What a receiving engine says of its protocol.
struct Traits {
    /// Messages carry another protocol.
    carries: bool,
    /// Messages have check values.
    checks: bool,
}

impl Traits {
    /// Those of one layer.
    fn of(layers: &Layers, layer: usize) -> Traits {
        struct Ask<'a>(&'a [u8]);
        impl Visitor for Ask<'_> {
            type Output = Traits;
            fn visit<P: Protocol>(self, id: ProtocolId) -> Traits {
                let parameters = P::Parameters::decode(self.0).expect("parameters");
                let engine: P = engine(id, &parameters, Direction::Receive);
                Traits {
                    carries: engine.content(1 << 12).is_some(),
                    checks: engine.has_checks(),
                }
            }
        }
        let id = layers.ids()[layer];
        visit(id, Ask(layers.parameters(layer))).expect("a protocol in the list")
    }
}

/// Payloads, some of which begin like messages of the stream's own protocol: planted headers.
fn payloads(id: ProtocolId, sizes: &[usize]) -> Vec<Vec<u8>> {
    let planted = sample(id).message(&[0x5a; 300]);
    let payload = |(n, len): (usize, &usize)| {
        let bytes = (0..*len).map(|at| ((at as u64 * 0x9e37_79b9) >> 7) as u8 ^ n as u8);
        match n % 3 {
            0 => planted.iter().copied().cycle().take(*len).collect(),
            _ => bytes.collect(),
        }
    };
    sizes.iter().enumerate().map(payload).collect()
}

/// What becomes of a packet.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Arrives,
    Lost,
    Twice,
    /// Comes so many packets later.
    Late(u8),
}

fn fate() -> impl Strategy<Value = Fate> {
    prop_oneof![
        12 => Just(Fate::Arrives),
        2 => Just(Fate::Lost),
        1 => Just(Fate::Twice),
        2 => (1u8..12).prop_map(Fate::Late),
    ]
}

/// Cuts a stream into packets.
fn cut(len: usize, sizes: &[usize]) -> Vec<(usize, usize)> {
    let (mut at, mut packets) = (0, Vec::new());
    for size in sizes.iter().cycle() {
        let to = (at + size).min(len);
        packets.push((at, to));
        at = to;
        if at == len {
            return packets;
        }
    }
    packets
}

/// The order in which packets come, by their fates; what was lost comes at the end.
fn order(packets: usize, fates: &[Fate]) -> Vec<usize> {
    let mut due: Vec<(usize, usize)> = Vec::new();
    let mut lost = Vec::new();
    for (n, fate) in (0..packets).zip(fates.iter().cycle()) {
        match fate {
            Fate::Arrives => due.push((n, n)),
            Fate::Twice => due.extend([(n, n), (n + 3, n)]),
            Fate::Late(by) => due.push((n + usize::from(*by), n)),
            Fate::Lost => lost.push(n),
        }
    }
    due.sort_by_key(|(when, _)| *when);
    due.into_iter().map(|(_, n)| n).chain(lost).collect()
}

/// Messages behind those under test, by which the offload must have come back: a context asks once per 32 KiB when it has asked often.
const TAIL: usize = 80;

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), ..ProptestConfig::default() })]

    #[test]
    fn what_is_received_through_the_nic_is_what_software_finds(
        sizes in prop::collection::vec(0usize..9000, 1..12),
        content in 600usize..9000,
        mss in prop::collection::vec(1usize..1460, 1..6),
        fates in prop::collection::vec(fate(), 1..40),
        start in prop_oneof![Just(u32::MAX - 3000), any::<u32>()],
        batch in 1usize..9,
        has_others: bool,
    ) {
        let stream_of = match has_others {
            true => Stream::with_others,
            false => Stream::new,
        };
        for ids in stacks() {
            let mut all = sizes.clone();
            all.extend([1500; TAIL]);
            let innermost = *ids.last().unwrap();
            let stream = stream_of(&ids, &payloads(innermost, &all), content);
            let tail = stream_of(&ids, &payloads(innermost, &sizes), content).len();
            let mut receiver = Receiver::new(&stream, SeqNum(start));
            let packets = cut(tail, &mss);
            for (n, packet) in order(packets.len(), &fates).into_iter().enumerate() {
                let (from, to) = packets[packet];
                receiver.bring(from, to);
                if n % batch == 0 {
                    receiver.flush();
                }
            }
            receiver.flush();
            // Of the tail nothing is lost.
            for (from, to) in cut(stream.len() - tail, &[1448]) {
                receiver.bring(tail + from, tail + to);
                receiver.flush();
            }
            prop_assert!(receiver.processed, "{ids:?}: the offload has not come back");
        }
    }

    #[test]
    fn what_the_nic_sends_is_what_software_would_send(
        sizes in prop::collection::vec(1usize..6000, 1..8),
        content in 600usize..6000,
        mss in 100u16..1460,
        sends in prop::collection::vec((any::<prop::sample::Index>(), 1usize..8000), 1..20),
        start in prop_oneof![Just(u32::MAX - 3000), any::<u32>()],
    ) {
        for ids in stacks() {
            let stream = Stream::new(&ids, &payloads(*ids.last().unwrap(), &sizes), content);
            let mut sender = Sender::new(&stream, SeqNum(start));
            let mut sent = 0;
            for (from, len) in &sends {
                let to = (sent + len).min(stream.len());
                if to > sent {
                    sender.send(sent..to, mss);
                    sent = to;
                }
                // And something of what was sent once more.
                let from = from.index(sent);
                sender.send(from..(from + len / 2).clamp(from + 1, sent), mss);
            }
        }
    }
}

#[test]
fn in_order_every_packet_is_processed_by_every_layer_and_all_data_are_placed() {
    for ids in stacks() {
        // So many that the last message around others is long, as all before it: of a short one nothing is placed before its end is there.
        let payloads = payloads(*ids.last().unwrap(), &[4000; 22]);
        let stream = Stream::with_others(&ids, &payloads, 5000);
        let mut receiver = Receiver::new(&stream, SeqNum(77));
        for (from, to) in cut(stream.len(), &[1448]) {
            receiver.bring(from, to);
            receiver.flush();
        }
        assert_eq!(receiver.all_processed, receiver.shown, "{ids:?}");
        let data = stream.parts.last().unwrap().data.iter();
        let data: usize = data.map(|data| data.range.len()).sum();
        assert_eq!(receiver.placed, data, "{ids:?}");
    }
}

fn cases() -> u32 {
    let cases = std::env::var("LONGSHORE_CASES").ok();
    cases.map_or(64, |cases| cases.parse().expect("a number"))
}
