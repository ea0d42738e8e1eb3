//! A host that posts what it likes: nothing of it makes the device panic, concerns another function, or goes without an answer
//! where one is due.

use std::time::Duration;

use nic::ring::layout::clear_reserved;
use nic::ring::toe::{TCB_IMAGE_BYTES, ToeCommand, ToeEvent, ToeId, ToeOffer, ToeOption};
use nic::ring::{
    ContextId, FunctionConfig, RecvDescriptor, RegionId, SendDescriptor, SendFlags, Slice,
};
use nic::{FrameMeta, ToeConfig};
use proptest::prelude::*;
use tcp::Config;
use testkit::bare::BareHost;
use testkit::fixtures::{self, PEER};
use testkit::link::Faults;
use testkit::{frames, toe as connections};
use wire::ethernet::MacAddr;
use wire::tcp::{Flags, Header};
use wire::{FlowKey, SeqNum};

use super::cases;
use super::world::{Setup, World};

const MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 7]);
const QUOTA: u32 = 4;
const MEMORY: u64 = 64 << 10;
const IMAGE_AT: u64 = 4096;
const IMAGE: Slice = Slice {
    offset: IMAGE_AT,
    len: TCB_IMAGE_BYTES as u32,
    region: RegionId(0),
};

/// What a host may post, and what may come to it.
#[derive(Debug, Clone)]
enum Junk {
    Raw(Vec<u64>),
    Begin(ToeId, u8),
    /// As it should be: begun and offered, with a good control block.
    HandOff(ToeId),
    Offer(ToeId, u8, Image, Slice, u8),
    Send(ToeId, u32, Option<u32>, bool, Vec<Slice>),
    Consumed(ToeId, u32),
    Simple(ToeId, u8),
    Option(ToeId, ToeOption),
    Resume(ToeId, u32, u32, u32),
    Frame(u8, u8, u32, u32, u16),
    Pass(u16),
}

#[derive(Debug, Clone)]
enum Image {
    Noise(Vec<u8>),
    /// A good one, of which some bytes are other ones.
    Spoilt(Vec<(u16, u8)>),
}

fn toe() -> impl Strategy<Value = ToeId> {
    (0..QUOTA + 2, 0u32..2).prop_map(|(index, generation)| ToeId { index, generation })
}

fn slice() -> impl Strategy<Value = Slice> {
    let sane = (0..MEMORY / 2, 1u32..4000).prop_map(|(offset, len)| (offset, len, None));
    let wild = any::<(u64, u32, u8)>().prop_map(|(offset, len, id)| (offset, len, Some(id)));
    prop_oneof![4 => sane, 1 => wild].prop_map(|(offset, len, region)| Slice {
        offset,
        len,
        // The neighbour's memory is its first region.
        region: RegionId(region.unwrap_or(0).into()),
    })
}

fn image() -> impl Strategy<Value = Image> {
    let spoilt = prop::collection::vec((0..TCB_IMAGE_BYTES as u16, any::<u8>()), 0..6);
    prop_oneof![
        6 => spoilt.prop_map(Image::Spoilt),
        1 => prop::collection::vec(any::<u8>(), TCB_IMAGE_BYTES).prop_map(Image::Noise),
    ]
}

fn option() -> impl Strategy<Value = ToeOption> {
    prop_oneof![
        any::<bool>().prop_map(ToeOption::NoDelay),
        any::<bool>().prop_map(ToeOption::Cork),
    ]
}

fn junk() -> impl Strategy<Value = Junk> {
    let image_slice = prop_oneof![
        5 => Just(None),
        1 => slice().prop_map(Some),
    ];
    let offer = (toe(), 0u8..3, image(), image_slice, any::<u8>());
    let send = (
        toe(),
        prop_oneof![Just(0u32), any::<u32>()],
        prop::option::weighted(0.2, any::<u32>()),
        any::<bool>(),
        prop::collection::vec(slice(), 0..60),
    );
    let numbers = || prop_oneof![3 => 0u32..3000, 1 => any::<u32>()];
    prop_oneof![
        1 => (prop::collection::vec(any::<u64>(), 24), 0u8..40).prop_map(|(mut words, opcode)| {
            words[0] = words[0] & !0xff | u64::from(opcode);
            if words[1] % 4 > 0 {
                clear_reserved(words.first_chunk_mut().expect("as long as a slot"));
            }
            Junk::Raw(words)
        }),
        6 => (toe(), 0u8..3).prop_map(|(toe, flow)| Junk::Begin(toe, flow)),
        4 => toe().prop_map(Junk::HandOff),
        6 => offer.prop_map(|(toe, flow, image, slice, limit)| {
            Junk::Offer(toe, flow, image, slice.unwrap_or(IMAGE), limit)
        }),
        4 => send.prop_map(|(toe, seq, context, mutable, slices)| {
            Junk::Send(toe, seq, context, mutable, slices)
        }),
        2 => (toe(), numbers()).prop_map(|(toe, bytes)| Junk::Consumed(toe, bytes)),
        4 => (toe(), 0u8..5).prop_map(|(toe, which)| Junk::Simple(toe, which)),
        1 => (toe(), option()).prop_map(|(toe, option)| Junk::Option(toe, option)),
        1 => (toe(), any::<u32>(), any::<u32>(), any::<u32>())
            .prop_map(|(toe, context, at, len)| Junk::Resume(toe, context, at, len)),
        6 => (0u8..3, any::<u8>(), numbers(), numbers(), 0u16..1400)
            .prop_map(|(flow, flags, seq, ack, len)| Junk::Frame(flow, flags, seq, ack, len)),
        2 => any::<u16>().prop_map(Junk::Pass),
    ]
}

struct Neighbour {
    bare: BareHost,
    /// A control block as good as any, and where its numbers begin.
    good: [u8; TCB_IMAGE_BYTES],
    starts: (SeqNum, SeqNum),
    asked: u32,
    answered: u32,
}

/// Flows of the neighbour's: the first has the very addresses of the other function's connection.
fn flow(which: u8) -> FlowKey {
    fixtures::flow(40_000 + u16::from(which))
}

impl Neighbour {
    fn new(world: &mut World) -> Neighbour {
        let config = FunctionConfig {
            toe_connections: QUOTA,
            ..FunctionConfig::new(MAC)
        };
        let mut bare = BareHost::attach(&mut world.nic, config);
        assert_eq!(bare.memory.id, RegionId(0));
        bare.fill(8, 0);
        let connection = &world.host.connection;
        let tcb = connection.tcb(world.now).expect("it is established");
        let starts = (tcb.snd_nxt, tcb.rcv_nxt);
        let image = connections::image(world.now, connection);
        let mut good = [0; TCB_IMAGE_BYTES];
        image.encode(&mut good).expect("nothing out of order");
        Neighbour {
            bare,
            good,
            starts,
            asked: 0,
            answered: 0,
        }
    }

    fn command(&mut self, command: ToeCommand<'_>) {
        let posted = self.bare.queues[0]
            .commands
            .post(&SendDescriptor::Toe(command));
        let must_answer = matches!(command, ToeCommand::Begin { .. } | ToeCommand::Offer(_));
        self.asked += u32::from(posted.is_ok() && must_answer);
    }

    fn act(&mut self, world: &mut World, junk: Junk) {
        match junk {
            Junk::Raw(words) => {
                let words = words.first_chunk().expect("as long as a slot");
                let queue = &mut self.bare.queues[0];
                let _ = queue.commands.post_raw(words);
                let _ = queue.send.post_raw(words);
            }
            Junk::Begin(toe, which) => {
                let flow = flow(which);
                self.command(ToeCommand::Begin { toe, flow });
            }
            Junk::HandOff(toe) => {
                self.act(world, Junk::Begin(toe, 0));
                let image = Image::Spoilt(Vec::new());
                self.act(world, Junk::Offer(toe, 0, image, IMAGE, 64));
            }
            Junk::Offer(toe, which, image, slice, hop_limit) => {
                self.bare.memory.write(IMAGE_AT, &self.encoded(image));
                self.command(ToeCommand::Offer(&ToeOffer {
                    toe,
                    flow: flow(which),
                    hop: PEER,
                    hop_limit,
                    tcb: slice,
                }));
            }
            Junk::Send(toe, seq, context, mutable, slices) => {
                let flags = match mutable {
                    true => SendFlags::MUTABLE_SOURCE,
                    false => SendFlags::NONE,
                };
                self.command(ToeCommand::Send {
                    toe,
                    seq: self.starts.0 + seq,
                    context: context.map(ContextId),
                    flags,
                    payload: &slices,
                });
            }
            Junk::Consumed(toe, bytes) => self.command(ToeCommand::Consumed { toe, bytes }),
            Junk::Simple(toe, which) => self.command(simple(toe, which)),
            Junk::Option(toe, option) => self.command(ToeCommand::Option { toe, option }),
            Junk::Resume(toe, context, at, len) => self.command(ToeCommand::Resume {
                toe,
                context: ContextId(context),
                tcpsn: SeqNum(at),
                len,
            }),
            Junk::Frame(which, flags, seq, ack, len) => {
                let header = Header {
                    src_port: flow(which).dst.1,
                    dst_port: 80,
                    seq: self.starts.1 + seq,
                    ack: self.starts.0 + ack,
                    flags: Flags(flags),
                    window: 1000,
                    ..Header::default()
                };
                receive(world, &flow(which), &header, usize::from(len));
            }
            Junk::Pass(millis) => {
                let end = world.now + Duration::from_millis((millis % 1500).into());
                while world.now < end {
                    world.advance(end);
                }
            }
        }
        self.bare.publish();
    }

    fn encoded(&self, image: Image) -> [u8; TCB_IMAGE_BYTES] {
        let mut bytes = self.good;
        match image {
            Image::Noise(noise) => bytes.copy_from_slice(&noise),
            Image::Spoilt(places) => {
                for (at, byte) in places {
                    bytes[usize::from(at)] = byte;
                }
            }
        }
        bytes
    }

    /// Takes what the device has reported.
    fn hear(&mut self) {
        for descriptor in self.bare.take() {
            let is_answer = matches!(
                descriptor,
                RecvDescriptor::Toe(
                    ToeEvent::Ready { .. }
                        | ToeEvent::Refused { .. }
                        | ToeEvent::Accepted { .. }
                        | ToeEvent::CommandFailed { .. }
                )
            );
            self.answered += u32::from(is_answer);
        }
    }
}

/// A command that says no more than which connection it is for.
fn simple(toe: ToeId, which: u8) -> ToeCommand<'static> {
    match which {
        0 => ToeCommand::Cancel { toe },
        1 => ToeCommand::Restore { toe },
        2 => ToeCommand::Close { toe },
        3 => ToeCommand::Abort { toe },
        _ => ToeCommand::Detach { toe },
    }
}

/// A segment of so many bytes comes from a flow's peer.
fn receive(world: &mut World, flow: &FlowKey, header: &Header, len: usize) {
    let frame = frames::frame(PEER, MAC, &flow.reversed(), header, &vec![7; len]);
    world
        .nic
        .handle_frame(world.now, &frame, FrameMeta::default());
}

proptest! {
    #![proptest_config(cases(128))]

    #[test]
    fn harms_nobody_else(
        junk in prop::collection::vec(junk(), 1..120),
        seed in any::<u64>(),
        moves in any::<bool>(),
    ) {
        let setup = Setup {
            v6: false,
            config: Config::default(),
            link: Faults::none(Duration::from_millis(2)),
            toe: ToeConfig::default(),
            totals: (200_000, 100_000),
            nudges: false,
            seed,
        };
        let mut world = World::new(&setup);
        let mut neighbour = Neighbour::new(&mut world);
        let start = world.now;
        let mut junk = junk.into_iter();
        prop_assert!(world.host.begin());
        while !world.is_over() {
            prop_assert!(world.now < start + Duration::from_secs(600), "{:?}", world.host.owner);
            world.host.write(world.now, 2_000);
            if let Some(junk) = junk.next() {
                neighbour.act(&mut world, junk);
                if moves {
                    let _ = world.host.begin() || world.host.restore();
                }
            }
            world.settle();
            world.advance(world.now + Duration::from_millis(1));
            neighbour.hear();
            prop_assert!(world.nic.counters().toe_connections <= u64::from(QUOTA) + 1);
        }
        world.assert_complete();
        prop_assert!(world.host.handoffs > 0);
        // Raw slots may have been anything, and be answered too.
        prop_assert!(neighbour.answered >= neighbour.asked, "{} of {}", neighbour.answered, neighbour.asked);
    }
}
