//! Signals that a thread gets.

use std::cell::Cell;

thread_local! {
    static RAISED: Cell<u32> = const { Cell::new(0) };
}

extern "C" fn count(_: i32) {
    RAISED.set(RAISED.get() + 1);
}

/// What a call gives, and how many `SIGPIPE`s this thread gets meanwhile.
pub fn broken_pipes<R>(call: impl FnOnce() -> R) -> (R, u32) {
    // SAFETY: a handler that does nothing but count.
    unsafe { libc::signal(libc::SIGPIPE, count as *const () as libc::sighandler_t) };
    RAISED.set(0);
    let answer = call();
    (answer, RAISED.get())
}
