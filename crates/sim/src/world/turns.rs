//! The NICs and the link on a thread of their own, in strict turns with the hosts.
//!
//! While one side runs the other one waits, spinning: a world in two threads does the same, packet by packet, as in one.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Instant;

use super::wires::Wires;

/// Rounds of spinning before the processor is offered to others.
const SPINS: u32 = 20_000;

/// The hosts' hold on the other thread.
pub(super) struct Turns {
    shared: Arc<Shared>,
    turn: u64,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    /// Locked by whoever's turn it is.
    state: Mutex<State>,
    /// Turns that the hosts have given.
    given: AtomicU64,
    /// Turns that the NICs have ended.
    ended: AtomicU64,
    over: AtomicBool,
}

struct State {
    wires: Wires,
    now: Instant,
    moved: bool,
}

impl Turns {
    pub(super) fn new(wires: Wires) -> Self {
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                wires,
                now: Instant::now(),
                moved: false,
            }),
            given: AtomicU64::new(0),
            ended: AtomicU64::new(0),
            over: AtomicBool::new(false),
        });
        let theirs = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("nic".into())
            .spawn(move || theirs.take_turns())
            .expect("the system gives a thread");
        Self {
            shared,
            turn: 0,
            thread: Some(thread),
        }
    }

    /// The NICs' turn. Answers whether a frame moved.
    pub(super) fn run(&mut self, now: Instant) -> bool {
        self.with_state(|state| state.now = now);
        self.turn += 1;
        self.shared.given.store(self.turn, Ordering::Release);
        wait(|| {
            let dead = self.thread.as_ref().is_some_and(JoinHandle::is_finished);
            assert!(!dead, "the NICs' thread has panicked");
            self.shared.ended.load(Ordering::Acquire) == self.turn
        });
        self.with_state(|state| state.moved)
    }

    /// Between the turns.
    pub(super) fn with<T>(&self, f: impl FnOnce(&mut Wires) -> T) -> T {
        self.with_state(|state| f(&mut state.wires))
    }

    fn with_state<T>(&self, f: impl FnOnce(&mut State) -> T) -> T {
        f(&mut self.shared.state.lock().expect("the NICs' thread lives"))
    }
}

impl Shared {
    fn take_turns(&self) {
        for turn in 1.. {
            wait(|| {
                self.given.load(Ordering::Acquire) == turn || self.over.load(Ordering::Relaxed)
            });
            if self.over.load(Ordering::Relaxed) {
                return;
            }
            {
                let state = &mut *self.state.lock().expect("the hosts' thread lives");
                state.moved = state.wires.run(state.now, &mut None);
            }
            self.ended.store(turn, Ordering::Release);
        }
    }
}

impl Drop for Turns {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic there has been seen by `run`, or comes too late to matter.
            let _ = thread.join();
        }
    }
}

fn wait(mut until: impl FnMut() -> bool) {
    let mut spins = 0;
    while !until() {
        spins += 1;
        if spins < SPINS {
            std::hint::spin_loop();
        } else {
            std::thread::yield_now();
        }
    }
}
