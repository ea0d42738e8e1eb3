//! Someone on the path has forged a packet: the NIC believes it and places what it carries, TCP drops it.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use l5p::crc32c::Crc32c;
use wire::nvme::command::{Io, Status};
use wire::nvme::{C2HData, Digests, Framing, Pdu, Phase, Role};

use super::super::nvme_target::world::{Setup, World, blocks};
use super::rig::{Mode, Rig, STRIDE, c2h};
use crate::pair::{CLIENT, SERVER, v4};
use host::nvme::PduOffload;
use host::pdus::{PduData, Unmapped};
use sim::Fate;
use testkit::pattern;

/// Where TCP and its payload begin in a frame of these connections, which have timestamps and IPv4.
const TCP: usize = 34;
const PAYLOAD: usize = TCP + 32;

/// The first long frame that the server sends from now on, which does not arrive.
type Caught = Rc<RefCell<Option<Vec<u8>>>>;

fn catch_one() -> (Caught, impl FnMut(usize, usize, &mut [u8]) -> Fate) {
    let caught = Caught::default();
    let (theirs, mut is_done) = (Rc::clone(&caught), false);
    let wire = move |from, _: usize, frame: &mut [u8]| {
        if is_done || from != SERVER || frame.len() < 1000 {
            return Fate::Pass;
        }
        is_done = true;
        *theirs.borrow_mut() = Some(frame.to_vec());
        Fate::Drop
    };
    (caught, wire)
}

/// The frame with another payload, and a timestamp that is so old that TCP drops it (RFC 7323 §5.3).
fn forge(mut frame: Vec<u8>, change: impl FnOnce(&mut [u8])) -> Vec<u8> {
    assert_eq!(frame[TCP + 20..TCP + 24], [1, 1, 8, 10], "timestamps");
    let timestamp = &mut frame[TCP + 24..TCP + 28];
    let value = u32::from_be_bytes(timestamp.try_into().expect("four bytes"));
    timestamp.copy_from_slice(&value.wrapping_sub(1 << 30).to_be_bytes());
    change(&mut frame[PAYLOAD..]);
    wire::tcp::fill_checksum(v4(SERVER), v4(CLIENT), &mut frame[TCP..]);
    frame
}

const MODES: [Digests; 2] = [Digests::NONE, Digests::BOTH];

#[test]
fn what_the_stream_brings_later_is_what_is_read() {
    for digests in MODES {
        let mut world = World::new(Setup {
            digests,
            ..Setup::default()
        });
        world.ready();
        let data = pattern(256 << 10);
        assert_eq!(world.write(0, &data, false), Status::SUCCESS);
        let (caught, wire) = catch_one();
        world.pair.decide(wire);
        let io = Io::Read {
            blocks: blocks(0, data.len()),
            fua: false,
        };
        let id = world.submit(io, 0, data.len() as u32);
        let placed = world.pair.nic_counter(CLIENT, "rx_nvmeotcp_bytes");
        let forged = world.run_until(Duration::from_secs(5), |world| {
            let frame = caught.borrow_mut().take();
            let is_caught = frame.is_some();
            if let Some(frame) = frame {
                world
                    .pair
                    .deliver(CLIENT, &forge(frame, |payload| payload[100..].fill(0xbb)));
            }
            is_caught
        });
        assert!(forged);
        assert_eq!(world.finish(id), Status::SUCCESS);
        let mut back = vec![0; data.len()];
        assert!(world.memory.read(0, &mut back));
        assert!(back == data, "{digests:?}");
        assert!(world.pair.nic_counter(CLIENT, "rx_nvmeotcp_bytes") > placed);
        let copied = world.pair.counter(CLIENT, "NvmeTcpRxBytesCopied");
        assert!(
            copied >= 1000,
            "the NIC has placed the forged bytes, so that the right ones were copied"
        );
    }
}

#[test]
fn a_buffer_that_the_stream_does_not_mend_is_told_of() {
    for digests in MODES {
        let mode = Mode {
            digests,
            offload: PduOffload::ALL,
            ..Mode::PLAIN
        };
        let mut rig = Rig::new(mode);
        let data = pattern(100_000);
        let len = data.len() as u32;
        assert!(rig.map(CLIENT, 0, 0, 2 * len));
        assert!(rig.map(CLIENT, 1, 0, len));
        let (caught, wire) = catch_one();
        rig.pair.decide(wire);
        for tag in 0..2 {
            rig.fill(SERVER, u64::from(tag) * STRIDE, &data);
            let slices = rig.slices(SERVER, u64::from(tag) * STRIDE, len);
            rig.send(SERVER, &c2h(tag, 0, len), PduData::Slices(&slices));
        }
        rig.run_until(|_| caught.borrow().is_some());
        let frame = caught.borrow_mut().take().expect("just seen");
        // The same PDU, but for the second half of the buffer.
        let forged = forge(frame, |payload| {
            let header = Pdu::C2HData(C2HData {
                cccid: 0,
                data_offset: len,
                data_len: len,
                last: true,
                success: false,
            });
            let framing = Framing {
                sender: Role::Controller,
                phase: Phase::Established,
                header_digest: digests.header,
                data_digest: digests.data,
                alignment: 0,
                max_pdu: 2 << 20,
            };
            let emitted = header.emit(&framing, payload);
            if digests.header {
                let digest = Crc32c::of(&payload[..emitted]);
                payload[emitted..emitted + 4].copy_from_slice(&digest.to_le_bytes());
            }
        });
        rig.pair.deliver(CLIENT, &forged);
        rig.run_until(|rig| rig.sides[CLIENT].log.ends.len() == 2);
        for tag in 0..2u16 {
            let read = rig.memory(CLIENT, u64::from(tag) * STRIDE, data.len());
            assert!(read == data, "{digests:?} {tag}");
        }
        assert_eq!(rig.unmap(CLIENT, 0), Some(Unmapped::Tainted), "{digests:?}");
        assert_eq!(rig.unmap(CLIENT, 1), Some(Unmapped::Clean), "{digests:?}");
    }
}
