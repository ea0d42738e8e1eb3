//! Whatever a guest writes to registers, configuration space, rings and memory, and whatever its VMM maps and takes away meanwhile: the NIC writes only to
//! what is mapped for writing, the neighbour on the same NIC goes on with its memory as it was, each step takes bounded time and memory, and after a reset
//! the function works as if nothing had been.

use std::time::Duration;

use nic::ring::SLOT_WORDS;
use nic::ring::layout::clear_reserved;
use nic::{Features, FrameMeta};
use rustix::time::{ClockId, clock_gettime};
use testkit::allocated_bytes;
use testkit::bare::VALID;
use testkit::fixtures::{HOST, PEER, aes_128_gcm, flow};
use testkit::frames::{ack, headers, unsummed};
use testkit::records::Records;
use wire::SeqNum;
use wire::ethernet::MacAddr;

use super::pci_layout::*;
use super::pci_machine::Machine;
use super::pci_steps::*;

/// Most steps of a program.
const MOST_STEPS: usize = 48;
/// Most that a step may take of this thread's time, on which the NIC is, and of its memory.
const MOST_SECONDS: u64 = 5;
const MOST_BYTES: isize = 16 << 20;
/// The guest's port of its flow.
const PORT: u16 = 5000;
/// Bytes of content of each record.
const CONTENT: usize = 1000;
/// The opcodes of a send ring, and a number that is not an opcode.
const OPCODES: u8 = 33;

/// Takes `data` for a program of steps; how many bytes are left over chooses how the function is reset in the end.
pub fn run(data: &[u8]) {
    let mut guest = Guest::new();
    for step in data.chunks_exact(STEP).take(MOST_STEPS) {
        let (time, bytes) = (seconds(), allocated_bytes());
        guest.step(&Step::of(step));
        guest.machine.check();
        assert!(seconds() - time <= MOST_SECONDS);
        assert!(allocated_bytes().wrapping_sub(bytes) as isize <= MOST_BYTES);
    }
    guest.machine.check_neighbour();
    guest.reset(data.len() % STEP);
    guest.machine.check_function();
    guest.machine.check_neighbour();
    guest.machine.end();
}

struct Guest {
    machine: Machine,
    records: Records,
    /// Where the next packet of the flow begins.
    at: SeqNum,
}

impl Guest {
    fn new() -> Guest {
        let mut machine = Machine::new();
        let contents = (0..32u8).map(|n| vec![n; CONTENT]);
        let records = Records::of(&aes_128_gcm(), contents);
        machine.poke(PAYLOAD, &records.framed);
        for n in 0..16 {
            let buffer = slice(RAM + BUFFERS + n * u64::from(SMALL_BYTES), SMALL_BYTES);
            machine.post(0, SMALL, &buffer);
        }
        for n in 0..4 {
            let at = RAM + BUFFERS + 0x8000 + n * u64::from(LARGE_BYTES);
            machine.post(0, LARGE, &slice(at, LARGE_BYTES));
        }
        Guest {
            machine,
            records,
            at: SeqNum(0),
        }
    }

    fn step(&mut self, step: &Step) {
        let machine = &mut self.machine;
        match step.what {
            0..4 => self.post(step),
            4 => fill(machine, step),
            5 => write_memory(machine, step),
            6 => access(machine, step, 0),
            7 => access(machine, step, u32::from(step.small[2]) % REGIONS),
            8 => configure(machine, step),
            9 => map(machine, step),
            10 => unmap(machine, step),
            11 => self.control(step),
            12 => set_irqs(machine, step),
            13 => self.arrive(step),
            14 => {
                let to = step.pick(0, &[HOST, PEER, MacAddr([0xff; 6])]);
                let len = usize::from(step.small[1]) * 5;
                machine.neighbour_sends(to, &vec![step.small[2]; len]);
                machine.work(FRAMES);
            }
            _ => self.pass_time(step),
        }
    }

    /// A descriptor on a ring, with a doorbell, and work, or not.
    fn post(&mut self, step: &Step) {
        let (queue, ring) = [(0, SEND), (0, SEND), (1, SEND), (0, COMMAND)][usize::from(step.what)];
        let mut words = self.slot(step);
        if !step.flags[0] {
            clear_reserved(&mut words);
        }
        let slot: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        self.machine.post(queue, ring, &slot);
        if step.flags[1] {
            let doorbell = DOORBELLS + 4 * queue;
            self.machine.write(0, doorbell, &[1, 0, 0, 0]);
        }
        if !step.flags[2] {
            self.machine.work(FRAMES);
        }
    }

    fn slot(&mut self, step: &Step) -> [u64; SLOT_WORDS] {
        let [opcode, flags, slices, kinds, len, mss, id] = step.small;
        let [a, b, c] = step.words;
        let opcode = match opcode {
            0x80.. => step.pick(0, &[1, 1, 1, 3, 5, 6]),
            _ => opcode % (OPCODES + 1),
        };
        let mut words = [0; SLOT_WORDS];
        let head = [opcode, flags, 0, slices % 5, slices >> 6, 0, 0, 0];
        words[1] = u64::from(id % 10) | a << 32;
        for (n, pair) in words[2..].chunks_exact_mut(2).enumerate() {
            let (kind, word) = (kinds.rotate_left(n as u32), b.rotate_left(8 * n as u32));
            let named = slice(
                step.address(kind, word),
                step.len(len, c.rotate_left(8 * n as u32)),
            );
            for (word, bytes) in pair.iter_mut().zip(named.chunks(8)) {
                *word = u64::from_ne_bytes(bytes.try_into().expect("8 bytes"));
            }
        }
        words[0] = u64::from_ne_bytes(head);
        match opcode {
            1 => self.send(step, &mut words, mss, id),
            3 => self.create(step, &mut words),
            _ if step.flags[3] => (words[2], words[3]) = (b, c),
            _ => {}
        }
        words
    }

    /// A `Send` of as many slices: of a segment of the flow, or of other bytes.
    fn send(&mut self, step: &Step, words: &mut [u64; SLOT_WORDS], mss: u8, id: u8) {
        let mut head = words[0].to_ne_bytes();
        head[3] &= 3;
        let count = usize::from(head[3]);
        let len = (0..count).fold(0u32, |sum, n| sum.wrapping_add(words[3 + 2 * n] as u32));
        let header = match id & 0x10 {
            0 => {
                if step.flags[3] {
                    self.at = SeqNum(step.words[0] as u32);
                }
                let sent = headers(HOST, PEER, &flow(PORT), &ack(&flow(PORT), self.at));
                self.at += len;
                head[6..8].copy_from_slice(&(u16::from(mss) * 8).to_ne_bytes());
                sent
            }
            _ => {
                let to = [PEER, NEIGHBOUR, MacAddr([0xff; 6]), HOST][usize::from(mss & 3)];
                [&to.0[..], &HOST.0, &ETHER_TYPE].concat()
            }
        };
        head[2] = header.len() as u8;
        words[0] = u64::from_ne_bytes(head);
        let context = match id & 0x20 {
            0 => u32::MAX,
            _ => u32::from(id & 3),
        };
        words[1] = u64::from(context) | u64::from(len) << 32;
        for (word, bytes) in words[8..].iter_mut().zip(header.chunks(8)) {
            let mut padded = [0; 8];
            padded[..bytes.len()].copy_from_slice(bytes);
            *word = u64::from_ne_bytes(padded);
        }
    }

    /// A context of TLS, for either direction of the flow.
    fn create(&mut self, step: &Step, words: &mut [u64; SLOT_WORDS]) {
        let receives = step.small[1] & 1 != 0;
        let mut slot = [0; 192];
        slot[..2].copy_from_slice(&[3, u8::from(receives)]);
        slot[8..12].copy_from_slice(&u32::from(step.small[6] & 3).to_ne_bytes());
        slot[12..16].copy_from_slice(&self.at.0.to_ne_bytes());
        let ports = match receives {
            false => [443, PORT],
            true => [PORT, 443],
        };
        for (place, last) in [(16, u8::from(receives)), (32, u8::from(!receives))] {
            slot[place + 10..place + 16].copy_from_slice(&[0xff, 0xff, 10, 0, 0, last + 1]);
        }
        slot[48..50].copy_from_slice(&ports[0].to_ne_bytes());
        slot[50..52].copy_from_slice(&ports[1].to_ne_bytes());
        slot[52] = 1;
        slot[56..58].copy_from_slice(&[13, 1]);
        slot[72..84].fill(4);
        slot[84..100].fill(3);
        for (word, bytes) in words.iter_mut().zip(slot.chunks(8)) {
            *word = u64::from_ne_bytes(bytes.try_into().expect("8 bytes"));
        }
    }

    fn control(&mut self, step: &Step) {
        match step.small[0] % 8 {
            0..3 => self.reset(usize::from(step.small[0] % 8)),
            3 => self.machine.write(0, CONTROL, &[0; 4]),
            4 => self.machine.write(0, CONTROL, &[1, 0, 0, 0]),
            _ => {
                let features = match step.flags[0] {
                    false => Features::ALL,
                    true => Features::from_bits(step.words[0]),
                };
                let _ = self.machine.set_up(features);
            }
        }
    }

    /// By the VMM, as a function, by the register, or by nothing of these.
    fn reset(&mut self, how: usize) {
        match how % 4 {
            0 => {
                let _ = self.machine.ask(DEVICE_RESET, &[], &[]);
            }
            1 => self.machine.write(7, 0x48, &[0, 0x80]),
            2 => self.machine.write(0, CONTROL, &[2, 0, 0, 0]),
            _ => {
                self.machine.unmap(4, 0, 0);
                self.machine.write(0, CONTROL, &[2, 0, 0, 0]);
            }
        }
    }

    /// A frame from the wire: of the flow, or anything.
    fn arrive(&mut self, step: &Step) {
        let (from, len) = (step.words[0] as usize, step.words[1] as usize % 1400);
        let from = from % self.records.wire.len();
        let to = (from + len).min(self.records.wire.len());
        let payload = &self.records.wire[from..to];
        let flow = flow(PORT).reversed();
        let tcp = ack(&flow, SeqNum(from as u32));
        let mut frame = match step.small[0] % 4 {
            0 | 1 => unsummed(PEER, HOST, &flow, &tcp, payload),
            2 => [&HOST.0[..], &PEER.0, &ETHER_TYPE, payload].concat(),
            _ => [&[0xff; 6][..], &PEER.0, &ETHER_TYPE, payload].concat(),
        };
        if step.flags[0] {
            let at = usize::from(step.small[1]) % frame.len();
            frame[at] ^= step.small[2];
        }
        let meta = match step.flags[1] {
            false => VALID,
            true => FrameMeta::default(),
        };
        self.machine.arrive(&frame, meta);
        if !step.flags[2] {
            self.machine.work(FRAMES);
        }
    }

    fn pass_time(&mut self, step: &Step) {
        let machine = &mut self.machine;
        match step.small[0] % 4 {
            0 | 1 => machine.now += Duration::from_millis(step.words[0] % 70_000),
            2 => {
                let _ = machine.nic.prepare_sleep();
                machine.nic.cancel_sleep();
            }
            _ => machine.cut(step.words[0] % RAM_BYTES),
        }
        machine.work(FRAMES);
    }
}

/// Seconds that this thread has run.
fn seconds() -> u64 {
    clock_gettime(ClockId::ThreadCPUTime).tv_sec as u64
}
