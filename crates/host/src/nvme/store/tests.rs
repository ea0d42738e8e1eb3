//! Stores against a model, by io_uring and by threads.

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use l5p::nvme::target::{CommandRef, Memory};
use proptest::prelude::*;
use wire::nvme::command::Range;

use super::engine::Call;
use super::*;

mod several;

/// A file that goes away with the test.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str, bytes: u64) -> Scratch {
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

struct Rig {
    stores: Stores,
    region: Arc<Region>,
    memory: MemoryId,
    bell: Doorbell,
    store: StoreId,
}

const ROOM: u32 = 1 << 20;

/// Somebody to work for: a target whose only command this is.
fn owner() -> Owner {
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
    fn new(method: Method, open: impl FnOnce(&mut Stores) -> Result<StoreId, OpenError>) -> Rig {
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

    fn file(method: Method, scratch: &Scratch) -> Rig {
        Rig::new(method, |stores| stores.open(&scratch.0, None, false))
    }

    /// Memory that is aligned as blocks are.
    fn extent(&self, index: u64, len: u32) -> Extent {
        let start = self.region.as_ptr() as u64;
        let offset = start.next_multiple_of(4096) - start + index * u64::from(ROOM);
        Extent {
            memory: self.memory,
            offset,
            len,
        }
    }

    fn submit(&mut self, operation: Operation, len: u32) {
        let request = StoreRequest {
            owner: owner(),
            store: self.store,
            operation,
        };
        let (data, scratch) = (self.extent(0, len), self.extent(1, len));
        self.stores.submit(request, Some(data), Some(scratch));
    }

    fn run(&mut self, operation: Operation, len: u32) -> Result<(), Status> {
        self.submit(operation, len);
        self.finish()
    }

    fn finish(&mut self) -> Result<(), Status> {
        loop {
            self.stores.poll();
            if let Some((_, result)) = self.stores.poll_done() {
                return result;
            }
            if !self.stores.has_work() {
                use rustix::event::{PollFd, PollFlags, poll};
                use std::os::fd::AsFd;
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

    fn write(&mut self, offset: u64, data: &[u8]) -> Result<(), Status> {
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

    fn read(&mut self, offset: u64, len: u32) -> Result<Vec<u8>, Status> {
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

    fn compare(&mut self, offset: u64, data: &[u8]) -> Result<(), Status> {
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

    fn zero(&mut self, offset: u64, len: u64, deallocate: bool) -> Result<(), Status> {
        let operation = Operation::WriteZeroes {
            offset,
            len,
            fua: deallocate,
            deallocate,
        };
        self.run(operation, 0)
    }

    fn deallocate(&mut self, ranges: &[(u64, u32)], blocks: u64) -> Result<(), Status> {
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

const BLOCKS: u64 = 64;
const METHODS: [Method; 2] = [Method::Auto, Method::Threads];

#[derive(Clone, Debug)]
enum Op {
    Write(u64, u64, u8),
    Read(u64, u64),
    Compare(u64, u64, bool),
    Zero(u64, u64, bool),
    Deallocate(Vec<(u64, u32)>),
    Flush,
}

fn blocks() -> impl Strategy<Value = (u64, u64)> {
    (0..BLOCKS).prop_flat_map(|start| (Just(start), 1..=BLOCKS - start))
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let range = (0..BLOCKS).prop_flat_map(|start| (Just(start), 0..=(BLOCKS - start) as u32));
    let op = prop_oneof![
        3 => (blocks(), any::<u8>()).prop_map(|((start, count), seed)| Op::Write(start, count, seed)),
        3 => blocks().prop_map(|(start, count)| Op::Read(start, count)),
        1 => (blocks(), any::<bool>()).prop_map(|((start, count), same)| Op::Compare(start, count, same)),
        1 => (blocks(), any::<bool>()).prop_map(|((start, count), d)| Op::Zero(start, count, d)),
        1 => proptest::collection::vec(range, 1..5).prop_map(Op::Deallocate),
        1 => Just(Op::Flush),
    ];
    proptest::collection::vec(op, 1..30)
}

/// Does the same with a store and with plain bytes.
fn agree(rig: &mut Rig, ops: &[Op]) {
    let mut model = vec![0u8; (BLOCKS << 12) as usize];
    for op in ops {
        agree_on(rig, op, &mut model);
    }
}

fn agree_on(rig: &mut Rig, op: &Op, model: &mut [u8]) {
    let range = |start: u64, count: u64| (start << 12) as usize..((start + count) << 12) as usize;
    match op {
        Op::Write(start, count, seed) => {
            let data: Vec<u8> = (0..count << 12)
                .map(|at| (at as u8) ^ (at >> 8) as u8 ^ seed)
                .collect();
            assert_eq!(rig.write(start << 12, &data), Ok(()));
            model[range(*start, *count)].copy_from_slice(&data);
        }
        Op::Read(start, count) => {
            let data = rig.read(start << 12, (count << 12) as u32).unwrap();
            assert!(data == model[range(*start, *count)], "{op:?}");
        }
        Op::Compare(start, count, same) => {
            let mut data = model[range(*start, *count)].to_vec();
            let last = data.len() - 1;
            data[last] ^= u8::from(!same);
            let expected = if *same {
                Ok(())
            } else {
                Err(Status::COMPARE_FAILURE)
            };
            assert_eq!(rig.compare(start << 12, &data), expected);
        }
        Op::Zero(start, count, deallocate) => {
            assert_eq!(rig.zero(start << 12, count << 12, *deallocate), Ok(()));
            model[range(*start, *count)].fill(0);
        }
        Op::Deallocate(ranges) => {
            assert_eq!(rig.deallocate(ranges, BLOCKS), Ok(()));
            for &(start, count) in ranges {
                model[range(start, count.into())].fill(0);
            }
        }
        Op::Flush => assert_eq!(rig.run(Operation::Flush, 0), Ok(())),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn a_store_holds_what_was_written(ops in ops(), kind in 0..3) {
        match kind {
            0 => agree(&mut Rig::new(Method::Auto, |s| s.add_in_memory(BLOCKS << 12, None, false)), &ops),
            kind => {
                let scratch = Scratch::new(&format!("model{kind}"), BLOCKS << 12);
                agree(&mut Rig::file(METHODS[kind as usize - 1], &scratch), &ops);
            }
        }
    }
}

#[test]
fn many_operations_are_under_way_at_once() {
    for method in METHODS {
        let scratch = Scratch::new(&format!("many{method:?}"), 4 << 20);
        let mut rig = Rig::file(method, &scratch);
        let at = rig.extent(0, 0).offset;
        for index in 0..1024u64 {
            assert!(
                rig.region
                    .write(at + (index % 256) * 4096, &[index as u8; 4096])
            );
            let request = StoreRequest {
                owner: owner(),
                store: rig.store,
                operation: Operation::Write {
                    offset: index % 1024 * 4096,
                    len: 4096,
                    fua: false,
                    memory: Memory::Buffer,
                },
            };
            let data = Extent {
                offset: at + (index % 256) * 4096,
                ..rig.extent(0, 4096)
            };
            rig.stores.submit(request, Some(data), None);
        }
        for _ in 0..1024 {
            assert_eq!(rig.finish(), Ok(()));
        }
        assert_eq!(rig.stores.in_flight(), 0);
        assert_eq!(rig.read(5 * 4096, 4096).unwrap(), [5; 4096]);
    }
}

#[test]
fn reads_with_fua_make_durable_what_they_read() {
    let scratch = Scratch::new("commit", 1 << 20);
    let rig = Rig::file(Method::Threads, &Scratch::new("unused", 1 << 20));
    let len = 4096;
    let read = |fua| Operation::Read {
        offset: 0,
        len,
        fua,
    };
    let compare = |fua| Operation::Compare {
        offset: 0,
        len,
        fua,
        memory: Memory::Buffer,
    };
    let calls = |operation, results: &[i32]| {
        let mut store = FileStore::open(&scratch.0, None, false).unwrap();
        calls(&rig, &mut store, operation, results)
    };
    let full = len as i32;
    for operation in [read(false), compare(false)] {
        assert_eq!(calls(operation, &[full]), ("read ".into(), Some(Ok(()))));
    }
    for operation in [read(true), compare(true)] {
        let steps = calls(operation, &[0, 512, full - 512]);
        assert_eq!(steps, ("sync read read ".into(), Some(Ok(()))));
        let failed = calls(operation, &[-libc::EIO]);
        let lost = Status::WRITE_FAULT.do_not_retry();
        assert_eq!(failed, ("sync ".into(), Some(Err(lost))));
    }
}

#[test]
fn a_file_that_has_lost_something_makes_nothing_durable_any_more() {
    let scratch = Scratch::new("lost", 1 << 20);
    let rig = Rig::file(Method::Threads, &Scratch::new("unused too", 1 << 20));
    let len = 4096;
    let write = |fua| Operation::Write {
        offset: 0,
        len,
        fua,
        memory: Memory::Buffer,
    };
    let read = Operation::Read {
        offset: 0,
        len,
        fua: true,
    };
    let lost = Some(Err(Status::WRITE_FAULT.do_not_retry()));
    for first in [Operation::Flush, write(true), read] {
        let mut store = FileStore::open(&scratch.0, None, false).unwrap();
        let mut another = store.another();
        // What did not begin has lost nothing.
        let again = calls(&rig, &mut store, Operation::Flush, &[-libc::ECANCELED]);
        assert_eq!(again, ("sync ".into(), Some(Err(Status::INTERRUPTED))));
        let refused = calls(&rig, &mut store, write(true), &[-libc::ENOMEM]);
        assert_eq!(refused.1, Some(Err(Status::INTERRUPTED)));
        // One that was under way when another was told.
        let mut late = task(&rig, Operation::Flush);
        assert!(matches!(another.step(&mut late, None), Next::Step(_)));
        assert_eq!(calls(&rig, &mut store, first, &[-libc::EIO]).1, lost);
        let Next::Done(late) = another.step(&mut late, Some(0)) else {
            panic!("a flush is one step");
        };
        assert_eq!(Some(late), lost);
        for refused in [Operation::Flush, write(true), read] {
            let done = calls(&rig, &mut another, refused, &[len as i32]);
            assert_eq!(done, (String::new(), lost));
        }
        assert!(another.sync().is_err());
        let done = calls(&rig, &mut another, write(false), &[len as i32]);
        assert_eq!(done, ("write ".into(), Some(Ok(()))));
    }
}

fn task(rig: &Rig, operation: Operation) -> Task {
    let request = StoreRequest {
        owner: owner(),
        store: rig.store,
        operation,
    };
    let span = |at| rig.stores.memory_at(Some(rig.extent(at, 4096)));
    Task::new(request, span(0), span(1))
}

/// The calls of an operation, whose results are these, and its end.
fn calls(
    rig: &Rig,
    store: &mut FileStore,
    operation: Operation,
    results: &[i32],
) -> (String, Option<Result<(), Status>>) {
    let mut task = task(rig, operation);
    let mut calls = String::new();
    let results = results.iter().map(|result| Some(*result));
    for result in std::iter::once(None).chain(results) {
        match store.step(&mut task, result) {
            Next::Step(step) => {
                calls += match step.call {
                    Call::Sync => "sync ",
                    Call::Write { .. } => "write ",
                    _ => "read ",
                }
            }
            Next::Turn => panic!("a turn"),
            Next::Done(result) => return (calls, Some(result)),
        }
    }
    (calls, None)
}

#[test]
fn an_end_waits_for_what_is_under_way() {
    for method in METHODS {
        let scratch = Scratch::new(&format!("end{method:?}"), 4 << 20);
        let mut rig = Rig::file(method, &scratch);
        for _ in 0..700 {
            let len = 4096;
            rig.submit(
                Operation::Read {
                    offset: 0,
                    len,
                    fua: false,
                },
                len,
            );
        }
        rig.stores.poll();
    }
}

#[test]
fn zeroes_take_no_room() {
    let scratch = Scratch::new("room", 1 << 20);
    let mut rig = Rig::file(Method::Auto, &scratch);
    rig.write(0, &[1; 1 << 20]).unwrap();
    rig.run(Operation::Flush, 0).unwrap();
    let used = || std::fs::metadata(&scratch.0).unwrap().blocks();
    let before = used();
    rig.deallocate(&[(0, 128)], 256).unwrap();
    assert!(
        used() < before || before == 0,
        "{before} blocks of 512 bytes before, {} after",
        used()
    );
    assert_eq!(rig.read(0, 4096).unwrap(), [0; 4096]);
    assert_eq!(rig.read(512 << 10, 4096).unwrap(), [1; 4096]);
}

#[test]
fn a_file_that_was_cut_short_fails_its_reads() {
    for method in METHODS {
        let scratch = Scratch::new(&format!("cut{method:?}"), 64 << 10);
        let mut rig = Rig::file(method, &scratch);
        File::options()
            .write(true)
            .open(&scratch.0)
            .unwrap()
            .set_len(8192)
            .unwrap();
        assert_eq!(rig.read(0, 4096), Ok(vec![0; 4096]));
        assert_eq!(
            rig.read(32 << 10, 4096),
            Err(Status::UNRECOVERED_READ_ERROR)
        );
    }
}

#[test]
fn what_may_not_be_written_is_not() {
    let scratch = Scratch::new("ro", 64 << 10);
    let mut file = Rig::new(Method::Auto, |stores| stores.open(&scratch.0, None, true));
    let mut memory = Rig::new(Method::Auto, |stores| {
        stores.add_in_memory(64 << 10, None, true)
    });
    for rig in [&mut file, &mut memory] {
        assert!(rig.stores.info(rig.store).read_only);
        assert!(
            rig.write(0, &[1; 4096])
                .unwrap_err()
                .is(Status::WRITE_PROTECTED)
        );
        assert!(
            rig.zero(0, 4096, true)
                .unwrap_err()
                .is(Status::WRITE_PROTECTED)
        );
        assert_eq!(rig.read(0, 4096), Ok(vec![0; 4096]));
    }
}

#[test]
fn ranges_outside_are_refused_and_none_is_done() {
    let mut rig = Rig::new(Method::Auto, |stores| {
        stores.add_in_memory(64 << 10, None, false)
    });
    rig.write(0, &[1; 4096]).unwrap();
    let refused = rig.deallocate(&[(0, 1), (16, 1)], 16).unwrap_err();
    assert!(refused.is(Status::LBA_OUT_OF_RANGE));
    assert_eq!(rig.read(0, 4096), Ok(vec![1; 4096]));
}

#[test]
fn large_zeroes_let_others_have_their_turn() {
    let mut rig = Rig::new(Method::Auto, |stores| {
        stores.add_in_memory(64 << 20, None, false)
    });
    let whole = Operation::WriteZeroes {
        offset: 100,
        len: (64 << 20) - 200,
        fua: false,
        deallocate: false,
    };
    rig.write((64 << 20) - 4096, &[1; 4096]).unwrap();
    rig.submit(whole, 0);
    rig.stores.poll();
    assert!(rig.stores.poll_done().is_none(), "it takes several turns");
    rig.submit(Operation::Flush, 0);
    assert_eq!(
        rig.stores.in_flight(),
        2 - usize::from(rig.stores.poll_done().is_some())
    );
    rig.finish().unwrap();
    let last = rig.read((64 << 20) - 4096, 4096).unwrap();
    assert_eq!((last[0], last[3995], last[3996]), (0, 0, 1));
}

#[test]
fn sizes_and_blocks_are_what_the_file_has() {
    let whole = Scratch::new("whole", 1 << 20);
    let odd = Scratch::new("odd", (1 << 20) + 700);
    let empty = Scratch::new("empty", 100);
    let bell = Doorbell::new().unwrap();
    let mut stores = Stores::new(&bell, Method::Auto);
    let id = stores.open(&whole.0, None, false).unwrap();
    let info = stores.info(id);
    assert_eq!(
        (info.bytes, info.block_shift, info.volatile_cache),
        (1 << 20, 12, true)
    );
    let again = stores.open(&whole.0, None, false);
    assert!(matches!(again, Err(OpenError::InUse(_))));
    let id = stores.open(&odd.0, None, false).unwrap();
    let info = stores.info(id);
    assert_eq!((info.bytes, info.block_shift), ((1 << 20) + 512, 9));
    assert!(matches!(
        stores.open(&empty.0, None, false),
        Err(OpenError::TooSmall(_))
    ));
    let directory = std::env::temp_dir();
    assert!(matches!(
        stores.open(&directory, None, true),
        Err(OpenError::Kind(_))
    ));
    let missing = directory.join("longshore-store-that-is-not-there");
    let error = stores.open(&missing, None, true).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("longshore-store-that-is-not-there")
    );
}
