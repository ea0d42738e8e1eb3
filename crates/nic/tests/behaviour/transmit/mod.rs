//! The send side as a host sees it: descriptors in, frames and error completions out.

mod borrowing;
mod changing;
mod driver;
mod encryption;
mod nvme;
mod nvme_refusals;
mod opening;
mod pdus;
mod refusals;
mod segmentation;
mod stream;
mod turns;
mod verification;

use l5p::Layers;
use nic::ring::layout::clear_reserved;
use nic::ring::{FunctionConfig, SLOT_WORDS};
use nic::{NicConfig, WireCapabilities};
use proptest::prelude::*;
use testkit::bare::{Rig, function_config, nic_config};

/// A byte that plaintext has everywhere, so that it is found where it must not be.
const PLAIN: u8 = b'P';

fn on_wire(wire: WireCapabilities) -> Rig {
    let nic = NicConfig {
        wire,
        ..nic_config()
    };
    let function = FunctionConfig {
        contexts: 4,
        ..function_config()
    };
    Rig::new(nic, function)
}

fn plain() -> Rig {
    on_wire(WireCapabilities::default())
}

/// What a slot of the send ring holds: an opcode, the rest of its first word, and the other words.
type Slot = (u8, [u8; 7], Vec<u64>);

fn slots(opcode: impl Strategy<Value = u8>) -> impl Strategy<Value = Vec<Slot>> {
    let word = prop_oneof![0u64..4, 0u64..5000, any::<u64>()];
    let words = prop::collection::vec(word, SLOT_WORDS - 1);
    prop::collection::vec((opcode, any::<[u8; 7]>(), words), 1..40)
}

/// Posts slots, half of which have these headers, and the first context. `flags` are those that there may be.
fn post_slots(rig: &mut Rig, slots: &[Slot], header: &[u8], flags: u8) {
    for (opcode, [flag, header_len, slices, continuations, a, mss, b], rest) in slots {
        let mut words = [0; SLOT_WORDS];
        words[0] = u64::from_le_bytes([
            *opcode,
            flag % flags,
            header_len % 130,
            slices % 5,
            continuations % 5,
            *a,
            *mss,
            b % 4,
        ]);
        words[1..].copy_from_slice(rest);
        if *a % 2 == 0 {
            words[0] = words[0] & !0xff_0000 | (header.len() as u64) << 16;
            for (word, bytes) in words[8..].iter_mut().zip(header.chunks(8)) {
                let mut padded = [0; 8];
                padded[..bytes.len()].copy_from_slice(bytes);
                *word = u64::from_le_bytes(padded);
            }
            words[1] &= 0xffff_ffff_0000_0000;
        }
        // Most of them are refused for other reasons than bits that must be zero, or are right.
        if a % 8 < 7 {
            clear_reserved(&mut words);
        }
        rig.host.queues[0].send.post_raw(&words).unwrap();
    }
}

/// A slot without a context: its host may send what it likes.
fn bypasses(slot: &Slot) -> bool {
    slot.2[0] as u32 == u32::MAX
}
