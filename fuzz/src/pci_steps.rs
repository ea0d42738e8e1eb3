//! What a step of a program of a hostile guest is made of, and what those do that need no more than the machine.

use std::os::fd::AsFd;

use rustix::event::{EventfdFlags, eventfd};

use super::pci_layout::*;
use super::pci_machine::Machine;

/// Bytes of a step's description: what to do with four flags, seven small numbers, and three words.
pub const STEP: usize = 32;
/// Frames that leave before the guest goes on.
pub const FRAMES: usize = 64;
/// Regions of a PCI function by vfio-user. The gate's library loses its place in the stream at a write to another one.
pub const REGIONS: u32 = 9;

/// What a step is made of.
pub struct Step {
    pub what: u8,
    pub flags: [bool; 4],
    pub small: [u8; 7],
    pub words: [u64; 3],
}

impl Step {
    pub fn of(bytes: &[u8]) -> Step {
        let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
        Step {
            what: bytes[0] & 15,
            flags: std::array::from_fn(|bit| bytes[0] >> (4 + bit) & 1 != 0),
            small: bytes[1..8].try_into().expect("7 bytes"),
            words: [word(8), word(16), word(24)],
        }
    }

    pub fn pick<T: Copy>(&self, at: usize, of: &[T]) -> T {
        of[usize::from(self.small[at]) % of.len()]
    }

    /// An address of the bus: mostly one where something is.
    pub fn address(&self, kind: u8, word: u64) -> u64 {
        let at = |from: u64, len: u64| RAM + from + word % len;
        match kind % 16 {
            0..8 => at(PAYLOAD, 0x1000),
            8..10 => at(PAYLOAD, UNMAPPED - PAYLOAD),
            10 | 11 => at(BUFFERS, PAYLOAD - BUFFERS),
            12 => at(0, QUEUES * BLOCK),
            13 => at(0, RAM_BYTES + 64),
            14 => at(PAYLOAD - 32, 64),
            _ => word,
        }
    }

    /// A length: mostly one that fits.
    pub fn len(&self, kind: u8, word: u64) -> u32 {
        match kind % 8 {
            0..4 => (word % 2048) as u32,
            4 => (word % 32) as u32,
            5 => (word % 0x10000) as u32,
            6 => 1022,
            _ => word as u32,
        }
    }
}

/// Buffers for received packets.
pub fn fill(machine: &mut Machine, step: &Step) {
    let (ring, bytes) = step.pick(0, &[(SMALL, SMALL_BYTES), (LARGE, LARGE_BYTES)]);
    let queue = u64::from(step.small[1] & 1);
    for n in 0..u64::from(step.small[2] % 16) {
        let address = match step.flags[0] {
            false => {
                RAM + BUFFERS
                    + (step.words[0] % 0x8000 + n * u64::from(bytes)) % (PAYLOAD - BUFFERS)
            }
            true => step.address(step.small[3], step.words[0]),
        };
        let len = match step.flags[1] {
            false => bytes,
            true => step.len(step.small[4], step.words[1]),
        };
        machine.post(queue, ring, &slice(address, len));
    }
}

/// Indices of rings, or anything.
pub fn write_memory(machine: &mut Machine, step: &Step) {
    let queue = u64::from(step.small[0] & 1);
    let ring = usize::from(step.small[1]) % RINGS.len();
    let at = queue * BLOCK + RINGS[ring].0;
    let word = match step.flags[0] {
        false => {
            machine.tails[queue as usize][ring].wrapping_add_signed(i64::from(step.small[2] as i8))
        }
        true => step.words[1],
    };
    match step.small[3] % 8 {
        0..2 => machine.poke(at, &word.to_ne_bytes()),
        2 => machine.poke(at + 128, &word.to_ne_bytes()),
        3 => machine.poke(at + 256, &word.to_ne_bytes()),
        4 | 5 => machine.poke(at + 384 + step.words[0] % 2048, &word.to_ne_bytes()),
        _ => {
            let bytes = [step.words[1].to_ne_bytes(), step.words[2].to_ne_bytes()].concat();
            machine.poke(step.words[0], &bytes);
        }
    }
    if !step.flags[1] {
        machine.work(FRAMES);
    }
}

/// An access of any width and offset.
pub fn access(machine: &mut Machine, step: &Step, region: u32) {
    let len = step.pick(0, &[4, 8, 4, 8, 1, 2, 3, 5, 16, 64, 0, 4096, 4097]);
    let register = [
        0, 8, 12, 16, 24, 28, 32, 64, 72, 88, 96, 104, 112, 512, 520, 4096,
    ];
    let offset = match step.small[1] {
        0..0x80 => step.pick(1, &register),
        0x80..0xf0 => step.words[0] % 0x5000,
        _ => step.words[0],
    };
    if step.flags[0] {
        let _ = machine.read(region, offset, len);
        return;
    }
    let value = [step.words[1].to_le_bytes(), step.words[2].to_le_bytes()].concat();
    let data: Vec<u8> = value.into_iter().cycle().take(len as usize).collect();
    machine.write(region, offset, &data);
}

/// A write to configuration space.
pub fn configure(machine: &mut Machine, step: &Step) {
    let offset = match step.flags[0] {
        false => step.pick(0, &[4, 0x48, 0x10, 0x18, 0x82, 0x3c]),
        true => u64::from(step.small[0]),
    };
    let len = 1 + usize::from(step.small[1] % 4);
    machine.write(7, offset, &step.words[0].to_le_bytes()[..len]);
}

/// The guest's memory mapped somewhere, also over what is mapped; or what is no memory.
pub fn map(machine: &mut Machine, step: &Step) {
    let pages = RAM_BYTES / 4096;
    let page = |at: usize| u64::from(step.small[at]) % pages * 4096;
    let address = match step.small[0] % 8 {
        0..5 => RAM + page(1),
        5 => RAM + page(1) + step.words[0] % 4096,
        6 => page(1),
        _ => step.words[0],
    };
    let offset = match step.small[2] % 8 {
        0..4 => address.wrapping_sub(RAM) % (RAM_BYTES * 2),
        4..6 => page(3),
        6 => page(3) + 1,
        _ => step.words[1],
    };
    let len = match step.small[4] % 8 {
        0..4 => page(5),
        4 => RAM_BYTES,
        5 => page(5) + step.words[2] % 4096,
        6 => 1 << (step.small[5] % 64),
        _ => step.words[2],
    };
    if !step.flags[0] {
        return machine.map(u32::from(step.small[6] % 4), offset, address, len);
    }
    let body: Vec<u8> = [32 | 3 << 32, offset, address, len]
        .iter()
        .flat_map(|word| word.to_le_bytes())
        .collect();
    let other = eventfd(0, EventfdFlags::CLOEXEC).expect("an eventfd");
    let files = [other.as_fd()];
    let _ = machine.ask(DMA_MAP, &body, &files[..usize::from(step.small[6] & 1)]);
}

pub fn unmap(machine: &mut Machine, step: &Step) {
    let pages = RAM_BYTES / 4096;
    let (from, len) = match step.small[0] % 8 {
        0 => (BUFFERS, PAYLOAD - BUFFERS),
        1 => (PAYLOAD, UNMAPPED - PAYLOAD),
        2 => (0, BUFFERS),
        3..6 => (
            u64::from(step.small[1]) % pages * 4096,
            u64::from(step.small[2]) % pages * 4096,
        ),
        _ => (step.words[0].wrapping_sub(RAM), step.words[1]),
    };
    let flags = u32::from(step.small[3] > 0xf0) * 4;
    machine.unmap(flags, RAM.wrapping_add(from), len);
}

pub fn set_irqs(machine: &mut Machine, step: &Step) {
    let files: Vec<_> = (0..step.small[0] % 4)
        .map(|_| eventfd(0, EventfdFlags::CLOEXEC).expect("an eventfd"))
        .collect();
    let files: Vec<_> = files.iter().map(AsFd::as_fd).collect();
    let flags = match step.flags[0] {
        false => step.pick(1, &[0x24, 0x21, 0x20, 4]),
        true => step.words[0] as u32,
    };
    let index = step.pick(2, &[2, 2, 2, 0, 4, 255]);
    let (start, count) = match step.flags[1] {
        false => (u32::from(step.small[3] % 4), u32::from(step.small[4] % 5)),
        true => (step.words[1] as u32, step.words[2] as u32),
    };
    let body: Vec<u8> = [20, flags, index, start, count]
        .iter()
        .flat_map(|word| word.to_le_bytes())
        .collect();
    let _ = machine.ask(SET_IRQS, &body, &files);
}
