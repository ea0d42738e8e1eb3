//! Somebody on the path changes packets, checksums and all.

use std::cell::Cell;
use std::rc::Rc;

use host::{CloseReason, Event, Offload, SocketError, SocketId};
use l5p::tls::Alert;
use sim::{Suite, World, WorldConfig};

/// Flips a bit of the payload byte at this offset of the frame, and puts the TCP checksum right.
fn flip(frame: &mut [u8], l4_offset: usize, at: usize) {
    let word = (at - l4_offset) / 2 * 2 + l4_offset;
    let sum_at = l4_offset + 16;
    let read = |frame: &[u8], at: usize| {
        u16::from_be_bytes([frame[at], frame.get(at + 1).copied().unwrap_or(0)])
    };
    let old = read(frame, word);
    frame[at] ^= 1;
    let new = read(frame, word);
    let sum = wire::checksum::update_u16(read(frame, sum_at), old, new);
    frame[sum_at..sum_at + 2].copy_from_slice(&sum.to_be_bytes());
}

struct Connection {
    world: World,
    ends: [SocketId; 2],
    closed: [Option<CloseReason>; 2],
}

fn connect(suite: Suite, offload: Offload) -> Connection {
    let mut world = World::new(WorldConfig::default());
    let (sender, receiver) = world.connect(1000, true);
    world.secure((sender, receiver), suite, offload);
    Connection {
        world,
        ends: [sender, receiver],
        closed: [None, None],
    }
}

impl Connection {
    fn run(&mut self, data: &[u8]) -> Vec<u8> {
        let (mut sent, mut received, mut steps) = (0, Vec::new(), 0);
        let mut buffer = [0; 10_000];
        while self.closed.iter().any(Option::is_none) && steps < 200_000 {
            steps += 1;
            let now = self.world.now();
            for node in 0..2 {
                while let Some(event) = self.world.stack(node).poll_event() {
                    if let Event::Closed(_, reason) = event {
                        self.closed[node] = Some(reason);
                    }
                }
            }
            if sent < data.len()
                && let Ok(len) = self.world.stack(0).write(now, self.ends[0], &data[sent..])
            {
                sent += len;
            }
            // An alert comes to whoever reads.
            let _ = self.world.stack(0).read(now, self.ends[0], &mut buffer);
            loop {
                match self.world.stack(1).read(now, self.ends[1], &mut buffer) {
                    Ok(0) | Err(SocketError::WouldBlock | SocketError::Closed(_)) => break,
                    Ok(len) => received.extend_from_slice(&buffer[..len]),
                    Err(error) => panic!("{error}"),
                }
            }
            if !self.world.step() && !self.world.advance() {
                break;
            }
        }
        received
    }
}

/// The first byte of the third record's ciphertext, or its last, the tag's.
fn forge(suite: Suite, offload: Offload, in_tag: bool) {
    let data: Vec<u8> = (0..200_000u32).map(|n| (n % 251) as u8).collect();
    let mut connection = connect(suite, offload);
    let (start, done) = (Rc::new(Cell::new(None)), Rc::new(Cell::new(false)));
    let (isn, forged) = (Rc::clone(&start), Rc::clone(&done));
    connection.world.observe(move |node, frame| {
        let Ok(parsed) = wire::packet::parse(frame) else {
            return;
        };
        if node != 0 || parsed.payload_len == 0 {
            return;
        }
        if isn.get().is_none() {
            isn.set(Some(parsed.tcp.seq));
        }
        let record = 16_384
            + match (suite.version, suite.algorithm) {
                (l5p::tls::Version::Tls13, _) => 22,
                (_, l5p::tls::Algorithm::ChaCha20Poly1305) => 21,
                _ => 29,
            };
        let wanted = if in_tag {
            record * 3 - 1
        } else {
            record * 2 + 20
        };
        let at = isn.get().expect("just set").distance_to(parsed.tcp.seq);
        if (at..at + parsed.payload_len).contains(&wanted) && !forged.get() {
            forged.set(true);
            flip(
                frame,
                parsed.l4_offset,
                parsed.payload_offset + (wanted - at) as usize,
            );
        }
    });
    let received = connection.run(&data);
    assert!(done.get(), "a packet was forged");
    assert_eq!(
        received,
        data[..16_384 * 2],
        "{suite}, {offload:?}: what came before the forged record, and no more"
    );
    match &connection.closed[1] {
        Some(CloseReason::Tls {
            alert: Alert::BadRecordMac,
            record: 2,
            ..
        }) => {}
        other => panic!("{suite}, {offload:?}: the receiver ended with {other:?}"),
    }
    assert_eq!(
        connection.closed[0],
        Some(CloseReason::PeerAlert(20)),
        "{suite}, {offload:?}"
    );
}

#[test]
fn a_forged_record_is_refused_by_name_and_the_peer_is_told() {
    for suite in Suite::ALL {
        for offload in [Offload::None, Offload::Rx, Offload::Both] {
            forge(suite, offload, false);
            forge(suite, offload, true);
        }
    }
}
