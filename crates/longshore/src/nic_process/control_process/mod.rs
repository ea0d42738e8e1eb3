//! The process that answers at the control socket, without privileges: it receives, looks at and closes what others pass, which may take as long
//! as they like, and tells the worker what it has seen. A thread for each connection waits in their stead.
//!
//! It ends with its worker; SIGTERM and SIGINT, which it has blocked as the supervisor has, do not end it before. A thread that can't end keeps no more than this process, for which nothing waits.

mod admission;
mod desk;
mod pace;
mod serve;
#[cfg(test)]
mod tests;

use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::Builder;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use linux::SocketExaminer;
use rustix::net::{Shutdown, shutdown};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::inherited;
use super::link::{Heard, Link};
use super::options::Options;
use super::sleep::until_readable;
use crate::sandbox::{self, Profile};
use admission::{Admission, Place};
use desk::Desk;
use pace::Pace;

/// Bytes of a thread's stack.
const STACK: usize = 256 << 10;
/// Stacks of threads that do nothing but close.
const SMALL_STACK: usize = 32 << 10;
/// Connections for which there was no place, and that take their time to be closed.
const MOST_CLOSING: usize = 4096;
/// Descriptors: three for each connection, and those of what is being closed.
const MOST_DESCRIPTORS: u64 = 16 << 10;

/// Answers at the control socket until the worker has gone.
///
/// # Errors
/// When something is missing to begin with.
pub fn run(options: &Options) -> Result<ExitCode> {
    let [link, channel, listener] = inherited::take(&options.inherited)?;
    let owner = rustix::process::geteuid().as_raw();
    raise_descriptors();
    let identity = options.identity()?;
    let examiner = SocketExaminer::new(options.taps().map(|tap| tap.tap.clone()));
    let examiner = examiner.inspect_err(|error| {
        tracing::warn!("this kernel can't tell of sockets ({error}): records are made in software");
    });
    sandbox::enter(Profile::Control, Some(identity))?;
    let desk = Arc::new(Desk::new(channel)?);
    let listener = Arc::new(UnixListener::from(listener));
    let (answers, last) = (Arc::clone(&desk), Arc::clone(&listener));
    Builder::new()
        .name("answers".to_owned())
        .spawn(move || end(answers.pass_answers_on(), &Link::new(link), &last))
        .context("a thread can't be started")?;
    let reception = Reception {
        desk,
        owner,
        examiner: examiner.ok().map(Arc::new),
        admission: Admission::default(),
        pace: Pace::default(),
        closing: Arc::default(),
    };
    reception.accept(&listener);
    Ok(ExitCode::FAILURE)
}

/// As many descriptors as are needed, or as the system lets us.
fn raise_descriptors() {
    let limit = getrlimit(Resource::Nofile);
    let wanted = Rlimit {
        current: Some(MOST_DESCRIPTORS),
        maximum: Some(
            limit
                .maximum
                .map_or(MOST_DESCRIPTORS, |most| most.max(MOST_DESCRIPTORS)),
        ),
    };
    let allowed = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    if setrlimit(Resource::Nofile, wanted).is_err() {
        let _ = setrlimit(Resource::Nofile, allowed);
    }
}

/// The worker has gone. If the supervisor has too, nothing listens from here on: whoever comes next must be able to tell.
fn end(why: rustix::io::Errno, supervisor: &Link, listener: &UnixListener) {
    tracing::debug!(%why, "the worker has gone");
    if matches!(supervisor.hear(), Heard::End) {
        let _ = shutdown(listener, Shutdown::Both);
    }
    leave(0)
}

/// Ends this process whatever its threads do.
fn leave(code: i32) {
    // SAFETY: ends the process without running anything of it.
    unsafe { libc::_exit(code) }
}

/// Takes connections.
struct Reception {
    desk: Arc<Desk>,
    /// Who has started the NIC.
    owner: u32,
    examiner: Option<Arc<SocketExaminer>>,
    admission: Admission,
    pace: Pace,
    closing: Arc<AtomicUsize>,
}

impl Reception {
    fn accept(&self, listener: &UnixListener) {
        loop {
            until_readable([listener.as_fd()], 0, Instant::now(), None);
            match listener.accept() {
                Ok((stream, _)) => self.welcome(stream),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                // Most likely for want of descriptors.
                Err(error) => {
                    tracing::warn!(%error, "a connection is not accepted");
                    std::thread::sleep(Duration::from_millis(20));
                }
            }
        }
    }

    /// Has a thread serve it, or close it.
    fn welcome(&self, stream: UnixStream) {
        let uid = attachment::peer::uid(&stream).unwrap_or(u32::MAX);
        let is_trusted = uid == 0 || uid == self.owner;
        let Some(place) = self.admission.admit(uid, is_trusted) else {
            return self.close(stream);
        };
        let (desk, examiner) = (Arc::clone(&self.desk), self.examiner.clone());
        let pace = self.pace.clone();
        let serve = move |stream| {
            let seat = desk.seat(uid, pace);
            if let Err(error) = serve::serve(stream, &seat, is_trusted, examiner.as_deref()) {
                tracing::debug!(uid, "a connection is ended: {error:#}");
            }
        };
        spawn(STACK, stream, Some(place), serve);
    }

    /// Closes it in a thread: what is on its way in it is closed with it.
    fn close(&self, stream: UnixStream) {
        if self.closing.fetch_add(1, Ordering::Relaxed) >= MOST_CLOSING {
            tracing::warn!("connections are opened faster than they can be closed");
            leave(1);
        }
        let closing = Arc::clone(&self.closing);
        spawn(SMALL_STACK, stream, None, move |stream| {
            drop(stream);
            closing.fetch_sub(1, Ordering::Relaxed);
        });
    }
}

/// Does it in a thread, whose place is free when all is done and closed.
fn spawn(
    stack: usize,
    stream: UnixStream,
    place: Option<Place>,
    act: impl FnOnce(UnixStream) + Send + 'static,
) {
    // If there can be no thread, closing is not for this one.
    let stream = std::mem::ManuallyDrop::new(stream);
    let thread = Builder::new().stack_size(stack);
    let started = thread.spawn(move || {
        act(std::mem::ManuallyDrop::into_inner(stream));
        drop(place);
    });
    if let Err(error) = started {
        tracing::warn!(%error, "a connection has no thread");
        leave(1);
    }
}
