//! What a file store makes durable, call by call, and what it does once that has failed.

use l5p::nvme::target::Memory;

use super::super::engine::Call;
use super::super::*;
use super::rig::{Rig, Scratch, owner};

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
