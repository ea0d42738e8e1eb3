//! The process that answers at the control socket, without privileges: it receives, looks at and closes what others pass, which may take as long
//! as they like, and tells the worker what it has seen. A thread for each connection waits in their stead.
//!
//! It ends with its worker; SIGTERM and SIGINT, which it has blocked as the supervisor has, do not end it before. A thread that can't end keeps no more than this process, for which nothing waits.

mod admission;
mod calls;
mod closing;
mod pace;
mod serve;
#[cfg(test)]
mod tests;

use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::ExitCode;
use std::sync::Arc;
use std::thread::Builder;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use attachment::peer;
use linux::SocketExaminer;
use rustix::net::{Shutdown, shutdown};

use super::inherited;
use super::link::{Heard, Uplink};
use super::options::Options;
use super::sleep::until_readable;
use crate::sandbox::{self, Profile};
use admission::{Admission, Place};
use calls::Calls;
use closing::Closing;
use pace::Pace;

/// Bytes of a thread's stack.
const STACK: usize = 256 << 10;

/// Answers at the control socket until the worker has gone.
///
/// # Errors
/// When something is missing to begin with.
pub fn run(options: &Options) -> Result<ExitCode> {
    let [link, pipe, channel, listener] = inherited::take(&options.inherited)?;
    inherited::outlive_parent()?;
    let owner = rustix::process::geteuid().as_raw();
    inherited::raise_descriptors();
    let identity = options.identity()?;
    let examiner = SocketExaminer::new(options.taps().map(|tap| tap.tap.clone()));
    let examiner = examiner.inspect_err(|error| {
        tracing::warn!(
            "this kernel has no socket diagnostics ({error}): software makes the TLS records"
        );
    });
    sandbox::enter(Profile::Control, Some(identity))?;
    let calls = Arc::new(Calls::new(channel)?);
    let listener = Arc::new(UnixListener::from(listener));
    let (answers, last) = (Arc::clone(&calls), Arc::clone(&listener));
    Builder::new()
        .name("answers".to_owned())
        .spawn(move || end(answers.pass_answers_on(), &Uplink::new(link, pipe), &last))
        .context("can't start a thread")?;
    let acceptor = Acceptor {
        calls,
        owner,
        examiner: examiner.ok().map(Arc::new),
        admission: Admission::default(),
        pace: Pace::default(),
        closing: Closing::new().context("can't start the thread that closes connections")?,
    };
    acceptor.accept(&listener);
    Ok(ExitCode::FAILURE)
}

/// The worker has ended. If the supervisor has too, the socket is closed: later clients must see that.
fn end(why: rustix::io::Errno, supervisor: &Uplink, listener: &UnixListener) {
    tracing::debug!("the worker ended: {why}");
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
struct Acceptor {
    calls: Arc<Calls>,
    /// Who has started the NIC.
    owner: u32,
    examiner: Option<Arc<SocketExaminer>>,
    admission: Admission,
    pace: Pace,
    closing: Closing,
}

impl Acceptor {
    fn accept(&self, listener: &UnixListener) {
        loop {
            until_readable([listener.as_fd()], 0, Instant::now(), None);
            match listener.accept() {
                Ok((stream, _)) => self.dispatch(stream),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                // Most likely for want of descriptors.
                Err(error) => {
                    tracing::warn!("can't accept a connection: {error}");
                    std::thread::sleep(Duration::from_millis(20));
                }
            }
        }
    }

    /// Has a thread serve it, or close it.
    fn dispatch(&self, stream: UnixStream) {
        let uid = peer::uid(&stream).unwrap_or(u32::MAX);
        let is_trusted = peer::judge(uid, self.owner).is_ok();
        let Some(place) = self.admission.admit(uid, is_trusted) else {
            if let Err(error) = self.closing.close(uid, stream) {
                tracing::warn!("{error}");
                leave(1);
            }
            return;
        };
        let (calls, examiner) = (Arc::clone(&self.calls), self.examiner.clone());
        let pace = self.pace.clone();
        let serve = move |stream| {
            let caller = calls.caller(uid, pace);
            if let Err(error) = serve::serve(stream, &caller, is_trusted, examiner.as_deref()) {
                tracing::debug!(uid, "connection closed: {error:#}");
            }
        };
        spawn(stream, place, serve);
    }
}

/// Does it in a thread, whose place is free when all is done and closed.
fn spawn(stream: UnixStream, place: Place, act: impl FnOnce(UnixStream) + Send + 'static) {
    // If there can be no thread, closing is not for this one.
    let stream = std::mem::ManuallyDrop::new(stream);
    let thread = Builder::new().stack_size(STACK);
    let started = thread.spawn(move || {
        act(std::mem::ManuallyDrop::into_inner(stream));
        drop(place);
    });
    if let Err(error) = started {
        tracing::warn!("can't start a thread for a connection: {error}");
        leave(1);
    }
}
