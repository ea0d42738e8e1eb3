//! What the namespace should hold, and each command should give.

use rand::{Rng as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;
use wire::nvme::command::Status;

use super::scenario::{BLOCK, Command};

/// The namespace as a run of bytes.
pub struct Model {
    bytes: Vec<u8>,
    random: Pcg64Mcg,
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
    /// A namespace of zeroes.
    pub fn new(blocks: u32, seed: u64) -> Self {
        Self {
            bytes: vec![0; (blocks * BLOCK) as usize],
            random: Pcg64Mcg::seed_from_u64(seed),
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
            Command::Flush => (Vec::new(), Status::SUCCESS),
        };
        Expected {
            result: data.clone(),
            data,
            status,
        }
    }
}
