//! Memory of a zero-copy send that changes between its transmission and its retransmission: nothing of the change is
//! ever sent, and the connection ends with an error that names the memory and the place.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use host::{CloseReason, Event, Offload, SocketError, SocketId};
use nic::ring::{Region, Slice};
use port::impair::Impairment;
use sim::{Suite, World, WorldConfig};

const LEN: usize = 100_000;

struct Fixture {
    world: World,
    region: Arc<Region>,
    sender: SocketId,
    receiver: SocketId,
    /// What was on the wire first for each sequence number, and whether it ever differed.
    wire: Rc<RefCell<Wire>>,
}

#[derive(Default)]
struct Wire {
    bytes: BTreeMap<u32, u8>,
    changed: bool,
}

fn data() -> Vec<u8> {
    (0..LEN as u32)
        .map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8)
        .collect()
}

fn fixture(suite: Suite) -> Fixture {
    let mut world = World::new(WorldConfig::default());
    let (sender, receiver) = world.connect(1000, false);
    world.secure((sender, receiver), suite, Offload::Both);

    let wire = Rc::new(RefCell::new(Wire::default()));
    let watch = Rc::clone(&wire);
    world.observe(move |node, frame| {
        let Ok(parsed) = wire::packet::parse(frame) else {
            return;
        };
        if node != 0 {
            return;
        }
        let mut wire = watch.borrow_mut();
        for (offset, &byte) in parsed.payload(frame).iter().enumerate() {
            let first = *wire
                .bytes
                .entry(parsed.tcp.seq.0.wrapping_add(offset as u32))
                .or_insert(byte);
            wire.changed |= first != byte;
        }
    });
    let region = Region::anonymous(LEN);
    assert!(region.write(0, &data()));
    Fixture {
        world,
        region: Arc::new(region),
        sender,
        receiver,
        wire,
    }
}

/// Sends the region while the link loses everything, lets `meddle` at it, mends the link and goes on to the end.
fn send(
    suite: Suite,
    meddle: impl FnOnce(&Region),
) -> (Vec<u8>, [Option<CloseReason>; 2], Fixture) {
    let mut fixture = fixture(suite);
    let region = fixture
        .world
        .stack(0)
        .register(Arc::clone(&fixture.region), "/srv/file")
        .unwrap();
    fixture.world.impair(
        0,
        Impairment {
            loss: 1.0,
            ..Impairment::default()
        },
    );
    let slice = Slice {
        region,
        offset: 0,
        len: LEN as u32,
    };
    let now = fixture.world.now();
    let mut sent = fixture
        .world
        .stack(0)
        .send_slices(now, fixture.sender, &[slice])
        .unwrap();
    fixture.world.settle();
    assert!(
        fixture.wire.borrow().bytes.len() > 10_000,
        "the initial window was sent, and lost"
    );

    meddle(&fixture.region);
    fixture.world.impair(0, Impairment::default());
    let (mut received, mut closed) = (Vec::new(), [None, None]);
    let mut buffer = [0; 10_000];
    let deadline = fixture.world.now() + Duration::from_secs(300);
    while fixture.world.now() < deadline
        && received.len() < LEN
        && closed.iter().any(Option::is_none)
    {
        let now = fixture.world.now();
        for (node, closed) in closed.iter_mut().enumerate() {
            while let Some(event) = fixture.world.stack(node).poll_event() {
                if let Event::Closed(_, reason) = event {
                    *closed = Some(reason);
                }
            }
        }
        if sent < LEN {
            let rest = Slice {
                region,
                offset: sent as u64,
                len: (LEN - sent) as u32,
            };
            sent += fixture
                .world
                .stack(0)
                .send_slices(now, fixture.sender, &[rest])
                .unwrap_or(0);
        }
        loop {
            match fixture
                .world
                .stack(1)
                .read(now, fixture.receiver, &mut buffer)
            {
                Ok(0) | Err(SocketError::WouldBlock | SocketError::Closed(_)) => break,
                Ok(len) => received.extend_from_slice(&buffer[..len]),
                Err(error) => panic!("{error}"),
            }
        }
        if !fixture.world.step() && !fixture.world.advance() {
            break;
        }
    }
    (received, closed, fixture)
}

#[test]
fn unchanged_memory_is_verified_and_sent_again() {
    for suite in Suite::ALL {
        let (received, closed, fixture) = send(suite, |_| {});
        assert_eq!(received, data(), "{suite}: {closed:?}");
        assert!(!fixture.wire.borrow().changed, "{suite}");
        assert!(
            fixture.world.nic_counters(0).named("tx_tls_verified") > 0,
            "{suite}"
        );
    }
}

#[test]
fn changed_memory_is_never_sent_again_and_ends_the_connection() {
    for suite in Suite::ALL {
        // In the record that was sent in part only, at its start, in its middle, and where its last sent byte is.
        for at in [0, 5000, 14_000] {
            let (received, closed, fixture) = send(suite, |region| {
                let mut byte = [0];
                assert!(region.read(at, &mut byte));
                assert!(region.write(at, &[byte[0] ^ 0x20]));
            });
            assert!(
                !fixture.wire.borrow().changed,
                "{suite}, {at}: a counter was used twice"
            );
            assert_eq!(received, [], "{suite}, {at}");
            let expected = CloseReason::SourceChanged {
                name: "/srv/file".into(),
                offset: 0,
            };
            assert_eq!(closed[0], Some(expected), "{suite}, {at}");
            assert_eq!(closed[1], Some(CloseReason::Reset), "{suite}, {at}");
            assert_eq!(
                fixture.world.nic_counters(0).named("tx_tls_source_changed"),
                1,
                "{suite}, {at}"
            );
        }
    }
}

#[test]
fn memory_that_changes_beyond_what_was_sent_is_sent_as_it_is_then() {
    let (received, closed, fixture) = send(Suite::DEFAULT, |region| {
        assert!(region.write(90_000, &[1, 2, 3]))
    });
    let mut expected = data();
    expected[90_000..90_003].copy_from_slice(&[1, 2, 3]);
    assert_eq!(received, expected, "{closed:?}");
    assert!(!fixture.wire.borrow().changed);
}
