//! Who can go on, as `h2` tells it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Wake, Waker};

/// The connection and its streams that were woken.
#[derive(Debug, Default)]
pub struct Wakes {
    connection: AtomicBool,
    streams: Mutex<Vec<u32>>,
}

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.connection.store(true, Ordering::Relaxed);
    }
}

/// One of the streams.
#[derive(Debug)]
struct StreamWake(u32, Arc<Wakes>);

impl Wake for StreamWake {
    fn wake(self: Arc<Self>) {
        self.1.streams().push(self.0);
    }
}

impl Wakes {
    /// What wakes a stream.
    pub fn of_stream(self: &Arc<Self>, stream: u32) -> Waker {
        Arc::new(StreamWake(stream, Arc::clone(self))).into()
    }

    /// Has a stream go on.
    pub fn wake_stream(&self, stream: u32) {
        self.streams().push(stream);
    }

    /// Whether the connection was woken since this was asked last.
    pub fn take_connection(&self) -> bool {
        self.connection.swap(false, Ordering::Relaxed)
    }

    /// Moves the streams that were woken since behind those of a list.
    pub fn take_streams(&self, list: &mut Vec<u32>) {
        list.append(&mut self.streams());
    }

    fn streams(&self) -> std::sync::MutexGuard<'_, Vec<u32>> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
