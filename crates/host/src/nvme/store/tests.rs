//! Stores by io_uring and by threads.

mod durable;
mod model;
mod rig;
mod several;

use std::fs::File;
use std::os::unix::fs::MetadataExt;

use l5p::nvme::target::Memory;

use super::*;
use rig::{Rig, Scratch, owner};

const METHODS: [Method; 2] = [Method::Auto, Method::Threads];

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
