//! The task that drives the stack.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use ::tokio::io::unix::AsyncFd;
use ::tokio::task::{spawn_blocking, yield_now};

use super::shared::{End, Shared};
use super::timer::Timer;
use super::watched::watched;
use crate::runtime::{Doorbell, Runtime};

/// Polls of the stack before other tasks get their turn.
const BUDGET: usize = 16;
/// How often to look whether the NIC has finished what it was given.
const LOOK: Duration = Duration::from_millis(20);

/// Runs on a task of its own.
pub(super) struct Driver {
    shared: Arc<Shared>,
    bell: AsyncFd<OwnedFd>,
    /// The runtime's other descriptor.
    line: Option<AsyncFd<OwnedFd>>,
    timer: Timer,
}

/// What the driver does after a turn.
enum Next {
    Again,
    Sleep,
    End,
}

impl Driver {
    /// # Panics
    /// Outside of a tokio runtime whose I/O is enabled.
    pub(super) fn new(shared: Arc<Shared>, bell: &Doorbell) -> io::Result<Driver> {
        Ok(Driver {
            shared,
            bell: watched(bell.as_fd())?,
            line: None,
            timer: Timer::new()?,
        })
    }

    pub(super) async fn run(mut self) {
        if let Err(error) = self.run_until_done().await {
            let end = End::Failed(error.kind(), error.to_string().into());
            drop(self.shared.lock().finish(end));
            return;
        }
        let runtime = self.shared.lock().runtime.take();
        // It may wait for the NIC.
        let ended = spawn_blocking(move || runtime.map(|it| it.shutdown(Instant::now()))).await;
        let end = match ended {
            Ok(Some(Err(error))) => End::Failed(error.kind(), error.to_string().into()),
            Err(panicked) => End::Failed(io::ErrorKind::Other, panicked.to_string().into()),
            Ok(_) => End::Done,
        };
        self.shared.lock().finish(end);
    }

    async fn run_until_done(&mut self) -> io::Result<()> {
        loop {
            match self.turn()? {
                Next::Again => yield_now().await,
                Next::Sleep => {
                    let slept = std::future::poll_fn(|context| self.poll_wake(context)).await;
                    if let Some(runtime) = &mut self.shared.lock().runtime {
                        runtime.cancel_sleep();
                    }
                    slept?;
                }
                Next::End => return Ok(()),
            }
        }
    }

    /// Does what there is to do, and gets ready to sleep when that was all.
    fn turn(&mut self) -> io::Result<Next> {
        let mut state = self.shared.lock();
        for _ in 0..BUDGET {
            state.has_commands = false;
            let now = Instant::now();
            let Some(runtime) = &mut state.runtime else {
                return Ok(Next::End);
            };
            // A NIC that has died leaves a descriptor that is ready for ever; what comes next is another one.
            if runtime.fd().is_none() {
                self.line = None;
            }
            let progress = runtime.poll(now)?;
            if runtime.fd().is_none() {
                self.line = None;
            }
            state.take_events();
            if progress {
                continue;
            }
            if state.is_done()? {
                return Ok(Next::End);
            }
            let is_closing = state.handles == 0;
            let Some(runtime) = &mut state.runtime else {
                return Ok(Next::End);
            };
            let deadline = match (runtime.poll_timeout(), is_closing.then(|| now + LOOK)) {
                (Some(a), Some(b)) => Some(a.min(b)),
                (a, b) => a.or(b),
            };
            let is_due = deadline.is_some_and(|deadline| deadline <= now);
            if is_due || !runtime.prepare_sleep() {
                runtime.cancel_sleep();
                continue;
            }
            watch(&mut self.line, runtime)?;
            self.timer.arm(now, deadline)?;
            return Ok(Next::Sleep);
        }
        Ok(Next::Again)
    }

    /// Ready when there is something to do.
    fn poll_wake(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        {
            let mut state = self.shared.lock();
            if state.has_commands {
                return Poll::Ready(Ok(()));
            }
            state.driver = Some(context.waker().clone());
        }
        // What is readable is read after it was cleared here: a bell that rings meanwhile is a new edge.
        if let Poll::Ready(guard) = self.bell.poll_read_ready(context) {
            guard?.clear_ready();
            return Poll::Ready(Ok(()));
        }
        if let Some(line) = &self.line
            && let Poll::Ready(guard) = line.poll_read_ready(context)
        {
            guard?.clear_ready();
            return Poll::Ready(Ok(()));
        }
        self.timer.poll(context)
    }
}

/// Watches the runtime's descriptor; it is another one only after it was none.
fn watch(line: &mut Option<AsyncFd<OwnedFd>>, runtime: &Runtime) -> io::Result<()> {
    match runtime.fd() {
        None => *line = None,
        Some(fd) if line.is_none() => *line = Some(watched(fd)?),
        Some(_) => {}
    }
    Ok(())
}

/// A tokio runtime that ends takes its tasks along: what is left of the streams fails instead of waiting for ever.
impl Drop for Driver {
    fn drop(&mut self) {
        let why = "the tokio runtime that drove the stack has ended";
        let end = End::Failed(io::ErrorKind::BrokenPipe, why.into());
        drop(self.shared.lock().finish(end));
    }
}
