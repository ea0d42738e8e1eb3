//! What the namespace should hold, and each command should give.

use l5p::crc32c::Crc32c;
use rand::{Rng as _, RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;
use wire::nvme::command::{RANGE_LEN, Status};
use wire::nvme::{C2HData, Digests, Framing, H2CData, MAX_HEADER_LEN, Pdu, Phase, Role};

use super::scenario::{BLOCK, Command};

/// The namespace as a run of bytes.
pub struct Model {
    bytes: Vec<u8>,
    random: Pcg64Mcg,
    /// How headers are made that what is written contains.
    planted: Option<Digests>,
}

/// What a command is given, and what it must come to.
pub struct Expected {
    /// Its data before it is submitted, if it takes any.
    pub data: Vec<u8>,
    /// What must be in its memory in the end.
    pub result: Vec<u8>,
    /// How it must end.
    pub status: Status,
}

impl Model {
    /// A namespace of zeroes. With `planted`, what is written contains headers of PDUs with such digests.
    pub fn new(blocks: u32, seed: u64, planted: Option<Digests>) -> Self {
        Self {
            bytes: vec![0; (blocks * BLOCK) as usize],
            random: Pcg64Mcg::seed_from_u64(seed),
            planted,
        }
    }

    /// Does a command, all of those that it does not commute with being done.
    pub fn apply(&mut self, command: &Command) -> Expected {
        let blocks = command.blocks();
        let range = (blocks.start * BLOCK) as usize..(blocks.end * BLOCK) as usize;
        let bytes = &mut self.bytes[range];
        let (data, status) = match command {
            Command::Read { .. } => {
                return Expected {
                    data: vec![0; bytes.len()],
                    result: bytes.to_vec(),
                    status: Status::SUCCESS,
                };
            }
            Command::Write { .. } => {
                self.random.fill_bytes(bytes);
                if let Some(digests) = self.planted {
                    plant(bytes, digests, &mut self.random);
                }
                (bytes.to_vec(), Status::SUCCESS)
            }
            Command::Compare { equal: true, .. } => (bytes.to_vec(), Status::SUCCESS),
            Command::Compare { equal: false, .. } => {
                let mut other = bytes.to_vec();
                if let Some(last) = other.last_mut() {
                    *last ^= 1;
                }
                (other, Status::COMPARE_FAILURE)
            }
            Command::WriteZeroes { .. } => {
                bytes.fill(0);
                (Vec::new(), Status::SUCCESS)
            }
            Command::Deallocate { start, count } => {
                bytes.fill(0);
                (range_of(*start, *count).to_vec(), Status::SUCCESS)
            }
            Command::Flush | Command::KeyUpdate { .. } => (Vec::new(), Status::SUCCESS),
        };
        Expected {
            result: data.clone(),
            data,
            status,
        }
    }
}

/// The one range of a Dataset Management (NVM Command Set 1.0 §3.2.3): attributes, length, first block.
fn range_of(start: u32, count: u32) -> [u8; RANGE_LEN] {
    let mut range = [0; RANGE_LEN];
    range[4..8].copy_from_slice(&count.to_le_bytes());
    range[8..].copy_from_slice(&u64::from(start).to_le_bytes());
    range
}

/// Writes chains of headers of either direction: each at the place where the one before says that the next one is, for
/// commands that there may be.
fn plant(bytes: &mut [u8], digests: Digests, random: &mut Pcg64Mcg) {
    let mut at = random.random_range(0..200);
    while at < bytes.len() {
        let (cccid, data_offset) = (random.random_range(0..8), random.random_range(0..4) * 4096);
        let (data_len, last) = (random.random_range(1..3000), random.random());
        let (sender, pdu) = if random.random() {
            let data = C2HData {
                cccid,
                data_offset,
                data_len,
                last,
                success: false,
            };
            (Role::Controller, Pdu::C2HData(data))
        } else {
            let data = H2CData {
                cccid,
                ttag: cccid,
                data_offset,
                data_len,
                last,
            };
            (Role::Host, Pdu::H2CData(data))
        };
        let framing = Framing {
            sender,
            phase: Phase::Established,
            header_digest: digests.header,
            data_digest: digests.data,
            alignment: 0,
            max_pdu: u32::MAX,
        };
        let mut header = [0; MAX_HEADER_LEN];
        let len = pdu.emit(&framing, &mut header);
        let digest = Crc32c::of(&header[..len]).to_le_bytes();
        let digest = if digests.header { &digest[..] } else { &[] };
        for (to, from) in bytes[at..]
            .iter_mut()
            .zip(header[..len].iter().chain(digest))
        {
            *to = *from;
        }
        at += framing.layout(pdu.pdu_type(), data_len).pdu_len() as usize;
        if random.random_range(0..4) == 0 {
            at += random.random_range(0..5000);
        }
    }
}
