//! The toy protocol's session: what the page "Add a protocol" asks a host for. Blobs go from host 0, whose NIC makes the digests, to host 1,
//! whose NIC places them and checks the digests, alone and inside TLS, on a good link and a bad one.

use std::sync::Arc;

use host::pdus::{Agreed, DataDigest, Destination, Framings, PduData, PduSink};
use host::{Offload, SocketId, Stack};
use l5p::Layers;
use l5p::toy::{Blob, Framing, Parameters, ToyError};
use nic::ring::{Region, RegionId, Slice};
use port::impair::Impairment;
use sim::{Suite, World, WorldConfig};

const TAGS: u16 = 4;
const BLOB: u32 = 200_000;
const PART: u32 = 50_000;

/// Takes blobs into memory, one after the other by tag.
struct Sink {
    region: RegionId,
    slices: Vec<Slice>,
    parts: usize,
}

impl PduSink<Framing> for Sink {
    fn header(&mut self, blob: &Blob) -> Result<Destination<'_>, ToyError> {
        if blob.tag >= TAGS || blob.offset + blob.len > BLOB {
            return Err(ToyError::TooLong(blob.len));
        }
        self.slices.clear();
        self.slices.push(Slice {
            region: self.region,
            offset: u64::from(blob.tag) * u64::from(BLOB) + u64::from(blob.offset),
            len: blob.len,
        });
        Ok(Destination::Slices(&self.slices))
    }

    fn end(&mut self, digest: DataDigest, _: &[u8]) -> Result<(), ToyError> {
        assert_eq!(digest, DataDigest::Good);
        self.parts += 1;
        Ok(())
    }
}

/// Blobs flow from the next byte on.
fn open(stack: &mut Stack, world_now: std::time::Instant, socket: SocketId) {
    let framing = Framing { max_len: PART };
    let framings = Framings {
        incoming: framing,
        outgoing: framing,
    };
    let layers = Layers::of(&Parameters {
        tags: TAGS,
        max_len: PART,
    });
    let agreed = Agreed {
        framings,
        transmit: Some(layers.clone()),
        receive: Some(layers),
        checks_digests: true,
        tags: TAGS,
    };
    stack.start_pdus(world_now, socket, framings).unwrap();
    stack.pdus_negotiated(world_now, socket, agreed).unwrap();
}

fn memory(stack: &mut Stack) -> (Arc<Region>, RegionId) {
    let region = Arc::new(Region::anonymous(usize::from(TAGS) * BLOB as usize));
    let id = stack.register(Arc::clone(&region), "blobs").unwrap();
    (region, id)
}

/// Sends all blobs; gives what host 1 counted by these names.
fn send_all(tls: bool, loss: f64, names: [&str; 4]) -> [u64; 4] {
    let mut world = World::new(WorldConfig {
        seed: 7,
        ..WorldConfig::default()
    });
    let (sender, receiver) = world.connect(4000, false);
    if tls {
        world.secure((sender, receiver), Suite::DEFAULT, Offload::Both);
    }
    let now = world.now();
    open(world.stack(0), now, sender);
    open(world.stack(1), now, receiver);
    let (source, from) = memory(world.stack(0));
    let (target, region) = memory(world.stack(1));
    let bytes: Vec<u8> = (0..source.len()).map(|at| (at * 31 / 8) as u8).collect();
    assert!(source.write(0, &bytes));
    for tag in 0..TAGS {
        let blob = Slice {
            region,
            offset: u64::from(tag) * u64::from(BLOB),
            len: BLOB,
        };
        assert!(world.stack(1).map_buffer(receiver, tag, &[blob]));
    }
    world.settle();
    world.impair(
        0,
        Impairment {
            loss,
            ..Impairment::default()
        },
    );

    let mut parts: Vec<(u16, u32)> = (0..TAGS)
        .flat_map(|tag| (0..BLOB).step_by(PART as usize).map(move |at| (tag, at)))
        .collect();
    parts.reverse();
    let all = parts.len();
    let mut sink = Sink {
        region,
        slices: Vec::new(),
        parts: 0,
    };
    while sink.parts < all {
        let now = world.now();
        while let Some((tag, offset)) = parts.last().copied() {
            let blob = Blob {
                tag,
                offset,
                len: PART,
            };
            let data = [Slice {
                region: from,
                offset: u64::from(tag) * u64::from(BLOB) + u64::from(offset),
                len: PART,
            }];
            let stack = world.stack(0);
            let sent = stack.send_pdu::<Framing>(now, sender, &blob, PduData::Slices(&data));
            if sent.is_err() {
                break;
            }
            parts.pop();
        }
        world
            .stack(1)
            .receive_pdus(now, receiver, &mut sink)
            .expect("the connection stands");
        assert!(world.step() || world.advance(), "the connection is stuck");
    }
    let mut received = vec![0; bytes.len()];
    assert!(target.read(0, &mut received));
    assert!(received == bytes);
    names.map(|name| world.counter(1, name))
}

#[test]
fn blobs_are_placed_and_checked_by_the_nic() {
    let names = [
        "ToyRxBytesPlaced",
        "ToyRxBytesCopied",
        "ToyRxDigestsDevice",
        "ToyRxDigestsSw",
    ];
    let all = u64::from(TAGS) * u64::from(BLOB);
    let parts = all / u64::from(PART);
    for tls in [false, true] {
        let [placed, copied, by_nic, by_software] = send_all(tls, 0.0, names);
        assert_eq!((by_nic, by_software), (parts, 0), "{tls}");
        // Of a short record the NIC places nothing before its end is there.
        let least = if tls { all * 98 / 100 } else { all };
        assert!(placed >= least && placed + copied == all, "{tls}: {placed}");
        let [placed, copied, by_nic, by_software] = send_all(tls, 0.02, names);
        assert_eq!(placed + copied, all, "{tls}");
        assert_eq!(by_nic + by_software, parts, "{tls}");
        assert!(placed > all / 2, "{tls}: {placed}");
    }
}
