//! What tasks and the driver share: the stack, and who waits for what.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Waker};
use std::time::Instant;

use crate::runtime::Runtime;
use crate::{CloseReason, Event, ListenerId, SocketId, Stack};

/// The stack behind its lock.
pub(super) struct Shared {
    state: Mutex<State>,
}

pub(super) struct State {
    /// None when it has ended.
    pub(super) runtime: Option<Runtime>,
    /// How it ended.
    pub(super) end: Option<End>,
    /// By [`SocketId::index`].
    sockets: Vec<Option<Slot>>,
    listeners: Vec<(ListenerId, Vec<Waker>)>,
    /// [`Handle`]s.
    pub(super) handles: usize,
    /// Commands were given since the stack was polled.
    pub(super) has_commands: bool,
    /// The driver, when it sleeps.
    pub(super) driver: Option<Waker>,
    /// Tasks that wait for the end.
    pub(super) farewells: Vec<Waker>,
}

/// How the stack ended.
#[derive(Clone)]
pub(super) enum End {
    /// All was done.
    Done,
    /// What it ran on has failed.
    Failed(io::ErrorKind, Arc<str>),
}

/// What is known of a stream's socket.
pub(super) struct Slot {
    id: SocketId,
    pub(super) is_connected: bool,
    pub(super) is_secured: bool,
    pub(super) closed: Option<CloseReason>,
    pub(super) reader: Option<Waker>,
    pub(super) writer: Option<Waker>,
}

impl Shared {
    pub(super) fn new(runtime: Runtime) -> Arc<Shared> {
        let state = State {
            runtime: Some(runtime),
            end: None,
            sockets: Vec::new(),
            listeners: Vec::new(),
            handles: 0,
            has_commands: false,
            driver: None,
            farewells: Vec::new(),
        };
        Arc::new(Shared {
            state: Mutex::new(state),
        })
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// The stack.
    pub(super) fn stack(&mut self) -> io::Result<&mut Stack> {
        match (&mut self.runtime, &self.end) {
            (Some(runtime), _) => Ok(runtime.stack()),
            (None, Some(End::Failed(kind, why))) => Err(io::Error::new(*kind, why.to_string())),
            (None, _) => Err(io::Error::new(
                io::ErrorKind::BrokenPipe,
                "the stack has ended",
            )),
        }
    }

    /// After a command: the driver is to poll the stack.
    pub(super) fn nudge(&mut self) {
        self.has_commands = true;
        if let Some(driver) = self.driver.take() {
            driver.wake();
        }
    }

    /// A stream has a socket now.
    pub(super) fn add_socket(&mut self, id: SocketId, is_connected: bool) {
        if self.sockets.len() <= id.index() {
            self.sockets.resize_with(id.index() + 1, || None);
        }
        self.sockets[id.index()] = Some(Slot {
            id,
            is_connected,
            is_secured: false,
            closed: None,
            reader: None,
            writer: None,
        });
    }

    /// A stream's slot; none for a socket that no stream has.
    pub(super) fn slot(&mut self, id: SocketId) -> Option<&mut Slot> {
        let slot = self.sockets.get_mut(id.index())?;
        slot.as_mut().filter(|slot| slot.id == id)
    }

    /// A stream has given its socket up.
    pub(super) fn remove_socket(&mut self, id: SocketId) {
        if self.slot(id).is_some() {
            self.sockets[id.index()] = None;
        }
    }

    pub(super) fn add_listener(&mut self, id: ListenerId) {
        self.listeners.push((id, Vec::new()));
    }

    pub(super) fn remove_listener(&mut self, id: ListenerId) {
        self.listeners.retain(|(other, _)| *other != id);
    }

    /// The task is to be woken when a connection waits at the listener.
    pub(super) fn await_connection(&mut self, id: ListenerId, context: &Context<'_>) {
        let found = self.listeners.iter_mut().find(|(other, _)| *other == id);
        if let Some((_, waiting)) = found {
            add(waiting, context);
        }
    }

    /// The task is to be woken when the stack has ended.
    pub(super) fn await_end(&mut self, context: &Context<'_>) {
        add(&mut self.farewells, context);
    }

    /// Takes the stack's events in, and wakes who waits for them.
    pub(super) fn take_events(&mut self) {
        while let Some(event) = self.runtime.as_mut().and_then(|it| it.stack().poll_event()) {
            match event {
                Event::Accepted(listener) => {
                    let found = self.listeners.iter_mut().find(|(id, _)| *id == listener);
                    if let Some((_, waiting)) = found {
                        waiting.drain(..).for_each(Waker::wake);
                    }
                }
                Event::Connected(id) => self.tell(id, |slot| slot.is_connected = true),
                Event::Secured(id) => self.tell(id, |slot| slot.is_secured = true),
                Event::Closed(id, why) => self.tell(id, |slot| slot.closed = Some(why)),
                Event::Readable(id) => {
                    if let Some(reader) = self.slot(id).and_then(|slot| slot.reader.take()) {
                        reader.wake();
                    }
                }
                Event::Writable(id) => {
                    if let Some(writer) = self.slot(id).and_then(|slot| slot.writer.take()) {
                        writer.wake();
                    }
                }
                // Splices are commands of the stack's that streams do not give.
                Event::Urgent(_)
                | Event::Spliced(_)
                | Event::SpliceRefused(..)
                | Event::SpliceProgress(..)
                | Event::SpliceEnded(..) => {}
            }
        }
    }

    /// Notes what concerns both directions, and wakes both.
    fn tell(&mut self, id: SocketId, note: impl FnOnce(&mut Slot)) {
        if let Some(slot) = self.slot(id) {
            note(slot);
            let woken = [slot.reader.take(), slot.writer.take()];
            woken.into_iter().flatten().for_each(Waker::wake);
        }
    }

    /// Whether there is nothing more to do: no handle is left, and TCP is through with all connections.
    pub(super) fn is_done(&mut self) -> io::Result<bool> {
        if self.handles > 0 {
            return Ok(false);
        }
        match &mut self.runtime {
            Some(runtime) => {
                Ok(!runtime.stack().has_sockets() && runtime.has_finished_teardowns()?)
            }
            None => Ok(true),
        }
    }

    /// Ends it for all that wait. Gives the runtime, if it was not ended before.
    pub(super) fn finish(&mut self, end: End) -> Option<Runtime> {
        if self.end.is_none() {
            self.end = Some(end);
        }
        let streams = self.sockets.iter_mut().flatten();
        let both = streams.flat_map(|slot| [slot.reader.take(), slot.writer.take()]);
        both.flatten().for_each(Waker::wake);
        let listeners = self.listeners.iter_mut();
        let waiting = listeners.flat_map(|(_, waiting)| waiting.drain(..));
        waiting
            .chain(self.farewells.drain(..))
            .for_each(Waker::wake);
        self.runtime.take()
    }
}

fn add(waiting: &mut Vec<Waker>, context: &Context<'_>) {
    if !waiting.iter().any(|it| it.will_wake(context.waker())) {
        waiting.push(context.waker().clone());
    }
}

/// Keeps the driver going, as everything does that a program holds of a [`Net`](super::Net).
pub(super) struct Handle {
    shared: Arc<Shared>,
}

impl Handle {
    pub(super) fn new(shared: &Arc<Shared>) -> Handle {
        shared.lock().handles += 1;
        Handle {
            shared: Arc::clone(shared),
        }
    }

    /// A handle beside this one, whose state is locked by now.
    pub(super) fn another(&self, state: &mut State) -> Handle {
        state.handles += 1;
        Handle {
            shared: Arc::clone(&self.shared),
        }
    }

    pub(super) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.shared.lock()
    }

    /// A command, and what it takes: the time.
    pub(super) fn command<R>(&self, command: impl FnOnce(&mut State, Instant) -> R) -> R {
        let mut state = self.lock();
        let result = command(&mut state, Instant::now());
        state.nudge();
        result
    }
}

impl Clone for Handle {
    fn clone(&self) -> Handle {
        Handle::new(&self.shared)
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        let mut state = self.lock();
        state.handles -= 1;
        if state.handles == 0 {
            state.nudge();
        }
    }
}
