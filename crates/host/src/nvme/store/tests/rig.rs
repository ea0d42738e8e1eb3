//! A store, and files that go away with a test.

use std::fs::File;
use std::os::fd::AsFd;
use std::path::PathBuf;

use l5p::nvme::target::{CommandRef, Memory};
use rustix::event::{PollFd, PollFlags, poll};
use wire::nvme::command::Range;

use super::super::*;

/// A file that goes away with the test.
pub struct Scratch(pub PathBuf);

impl Scratch {
    pub fn new(name: &str, bytes: u64) -> Scratch {
        let directory = std::env::temp_dir();
        let path = directory.join(format!("longshore-store-{}-{name}", std::process::id()));
        File::create(&path).unwrap().set_len(bytes).unwrap();
        Scratch(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

pub struct Rig {
    pub stores: Stores,
    pub region: Arc<Region>,
    pub memory: MemoryId,
    pub bell: Doorbell,
    pub store: StoreId,
}

pub const ROOM: u32 = 1 << 20;

/// Somebody to work for: a target whose only command this is.
pub fn owner() -> Owner {
    use l5p::nvme::target::{Config, Limits, Target};
    let now = std::time::Instant::now();
    let config = Config {
        subsystems: Vec::new(),
        portals: Vec::new(),
        required_digests: wire::nvme::Digests::NONE,
        limits: Limits::default(),
        firmware: String::new(),
    };
    let connection = Target::new(now, config).unwrap().accept(now, None).unwrap();
    Owner::Command(CommandRef {
        connection,
        slot: 0,
    })
}

impl Rig {
    pub fn new(
        method: Method,
        open: impl FnOnce(&mut Stores) -> Result<StoreId, OpenError>,
    ) -> Rig {
        let bell = Doorbell::new().unwrap();
        let mut stores = Stores::new(&bell, method);
        let region = Arc::new(Region::anonymous(3 * ROOM as usize));
        let memory = stores.add_memory(Arc::clone(&region), true);
        let store = open(&mut stores).unwrap();
        Rig {
            stores,
            region,
            memory,
            bell,
            store,
        }
    }

    pub fn file(method: Method, scratch: &Scratch) -> Rig {
        Rig::new(method, |stores| stores.open(&scratch.0, None, false))
    }

    /// Memory that is aligned as blocks are.
    pub fn extent(&self, index: u64, len: u32) -> Extent {
        let start = self.region.as_ptr() as u64;
        let offset = start.next_multiple_of(4096) - start + index * u64::from(ROOM);
        Extent {
            memory: self.memory,
            offset,
            len,
        }
    }

    pub fn submit(&mut self, operation: Operation, len: u32) {
        let request = StoreRequest {
            owner: owner(),
            store: self.store,
            operation,
        };
        let (data, scratch) = (self.extent(0, len), self.extent(1, len));
        self.stores.submit(request, Some(data), Some(scratch));
    }

    pub fn run(&mut self, operation: Operation, len: u32) -> Result<(), Status> {
        self.submit(operation, len);
        self.finish()
    }

    pub fn finish(&mut self) -> Result<(), Status> {
        loop {
            self.stores.poll();
            if let Some((_, result)) = self.stores.poll_done() {
                return result;
            }
            if !self.stores.has_work() {
                let mut fds = [PollFd::from_borrowed_fd(self.bell.as_fd(), PollFlags::IN)];
                let timer_snapshot = rustix::event::Timespec {
                    tv_sec: 10,
                    tv_nsec: 0,
                };
                assert_ne!(
                    poll(&mut fds, Some(&timer_snapshot)).unwrap(),
                    0,
                    "the bell is rung"
                );
                self.bell.answer();
            }
        }
    }

    pub fn write(&mut self, offset: u64, data: &[u8]) -> Result<(), Status> {
        let at = self.extent(0, 0).offset;
        assert!(self.region.write(at, data));
        let len = data.len() as u32;
        let operation = Operation::Write {
            offset,
            len,
            fua: offset.is_multiple_of(8192),
            memory: Memory::Buffer,
        };
        self.run(operation, len)
    }

    pub fn read(&mut self, offset: u64, len: u32) -> Result<Vec<u8>, Status> {
        self.run(
            Operation::Read {
                offset,
                len,
                fua: offset.is_multiple_of(8192),
            },
            len,
        )?;
        let mut data = vec![0; len as usize];
        assert!(self.region.read(self.extent(0, 0).offset, &mut data));
        Ok(data)
    }

    pub fn compare(&mut self, offset: u64, data: &[u8]) -> Result<(), Status> {
        let at = self.extent(0, 0).offset;
        assert!(self.region.write(at, data));
        let len = data.len() as u32;
        let operation = Operation::Compare {
            offset,
            len,
            fua: offset.is_multiple_of(8192),
            memory: Memory::Buffer,
        };
        self.run(operation, len)
    }

    pub fn zero(&mut self, offset: u64, len: u64, deallocate: bool) -> Result<(), Status> {
        let operation = Operation::WriteZeroes {
            offset,
            len,
            fua: deallocate,
            deallocate,
        };
        self.run(operation, 0)
    }

    pub fn deallocate(&mut self, ranges: &[(u64, u32)], blocks: u64) -> Result<(), Status> {
        let bytes: Vec<u8> = ranges
            .iter()
            .flat_map(|&(start, count)| {
                Range {
                    attributes: 0,
                    count,
                    start,
                }
                .to_bytes()
            })
            .collect();
        let at = self.extent(0, 0).offset;
        assert!(self.region.write(at, &bytes));
        let operation = Operation::Deallocate {
            ranges: ranges.len() as u16,
            memory: Memory::Buffer,
            blocks,
            block_shift: 12,
        };
        self.run(operation, bytes.len() as u32)
    }
}
