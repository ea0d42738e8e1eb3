use std::sync::Barrier;
use std::time::Duration;

use super::ForkLock;

#[test]
fn one_thread_at_a_time_has_it() {
    let lock = ForkLock::new(0_u64);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..20_000 {
                    let mut value = lock.lock();
                    let seen = *value;
                    if seen.is_multiple_of(1000) {
                        std::thread::yield_now();
                    }
                    *value = seen + 1;
                }
            });
        }
    });
    assert_eq!(*lock.lock(), 80_000);
}

#[test]
fn who_waits_for_long_sleeps() {
    let lock = ForkLock::new(());
    let begun = Barrier::new(2);
    std::thread::scope(|scope| {
        let held = lock.lock();
        let waiter = scope.spawn(|| {
            begun.wait();
            drop(lock.lock());
            processor_time()
        });
        begun.wait();
        std::thread::sleep(Duration::from_millis(200));
        drop(held);
        let took = waiter.join().expect("the waiter");
        assert!(took < Duration::from_millis(50), "{took:?}");
    });
}

#[test]
fn who_does_not_wait_takes_it_if_it_is_free() {
    let lock = ForkLock::new(());
    let held = lock.try_lock();
    assert!(held.is_some() && lock.try_lock().is_none());
    drop(held);
    assert!(lock.try_lock().is_some());
}

#[test]
fn a_child_takes_it_from_a_thread_that_it_has_not() {
    let lock = ForkLock::new(());
    let held = lock.lock();
    // SAFETY: the child takes a lock and ends.
    let child = unsafe { libc::fork() };
    if child == 0 {
        drop(lock.lock());
        // SAFETY: ends the child.
        unsafe { libc::_exit(7) };
    }
    let mut status = 0;
    // SAFETY: our child, and room for its status.
    unsafe { libc::waitpid(child, &mut status, 0) };
    assert_eq!(libc::WEXITSTATUS(status), 7);
    drop(held);
}

/// What this thread has had.
fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::try_from(time).expect("a time since the thread began")
}
