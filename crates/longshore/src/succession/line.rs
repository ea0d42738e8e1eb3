//! The connection between the two processes: lines of JSON, some with descriptors.

use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use attachment::passing;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Bytes of a line at most: connections are named a few at a time.
const MOST_LINE: usize = 1 << 20;
/// Bytes that are received at a time.
const RECEIVED: usize = 16 * 1024;

/// One side.
#[derive(Debug)]
pub(super) struct Line {
    stream: UnixStream,
    input: Vec<u8>,
    /// Bytes of it that have no end of a line among them.
    scanned: usize,
    descriptors: Vec<OwnedFd>,
    /// Some of a word was said, and not all: nothing can follow it.
    is_cut: bool,
}

impl Line {
    /// On a connected socket, which from here on waits.
    pub(super) fn new(stream: UnixStream) -> io::Result<Line> {
        stream.set_nonblocking(false)?;
        Ok(Line {
            stream,
            input: Vec::new(),
            scanned: 0,
            descriptors: Vec::new(),
            is_cut: false,
        })
    }

    /// Says something, with descriptors; waits until then at most for the other side to take all of it. If it does not, no more can be said.
    pub(super) fn say(
        &mut self,
        until: Instant,
        what: &impl Serialize,
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<()> {
        let mut line = serde_json::to_vec(what)?;
        line.push(b'\n');
        ensure!(line.len() <= MOST_LINE, "a word of {} bytes", line.len());
        ensure!(!self.is_cut, "the other process did not listen");
        self.is_cut = true;
        self.send(until, &line, descriptors)?;
        self.is_cut = false;
        Ok(())
    }

    fn send(&self, until: Instant, line: &[u8], mut descriptors: &[BorrowedFd<'_>]) -> Result<()> {
        let mut left = line;
        while !left.is_empty() {
            let time = until.saturating_duration_since(Instant::now());
            ensure!(!time.is_zero(), "the other process does not listen");
            let socket = self.stream.as_fd();
            match passing::send_with(socket, left, descriptors, SendFlags::DONTWAIT) {
                Ok(sent) => (left, descriptors) = (&left[sent..], &[]),
                Err(Errno::AGAIN) => {
                    let room = PollFd::new(&self.stream, PollFlags::OUT);
                    match poll(&mut [room], Some(&time.try_into()?)) {
                        Ok(_) | Err(Errno::INTR) => {}
                        Err(error) => return Err(error.into()),
                    }
                }
                Err(error) => return Err(error).context("the other process has hung up"),
            }
        }
        Ok(())
    }

    /// What the other side has said, if anything whole has come. Does not wait.
    pub(super) fn try_hear<T: DeserializeOwned>(&mut self) -> Result<Option<T>> {
        loop {
            if let Some(line) = self.next_line() {
                return Ok(Some(
                    serde_json::from_slice(&line).context("an unknown word")?,
                ));
            }
            if !self.receive(RecvFlags::DONTWAIT)? {
                return Ok(None);
            }
        }
    }

    /// The same; waits for it until then.
    pub(super) fn hear<T: DeserializeOwned>(&mut self, until: Instant) -> Result<T> {
        loop {
            let left = until.saturating_duration_since(Instant::now());
            ensure!(!left.is_zero(), "the other process does not answer in time");
            if let Some(line) = self.next_line() {
                return serde_json::from_slice(&line).context("an unknown word");
            }
            self.stream.set_read_timeout(Some(left))?;
            self.receive(RecvFlags::empty())?;
        }
    }

    /// Whether something has come that was not heard.
    pub(super) fn has_more(&self) -> bool {
        self.input[self.scanned..].contains(&b'\n')
    }

    /// The descriptors that have come with what was heard.
    pub(super) fn take_descriptors(&mut self) -> Vec<OwnedFd> {
        std::mem::take(&mut self.descriptors)
    }

    /// Waits for the other side to hang up, until then at most. What it says before is not heard.
    pub(super) fn await_end(&mut self, until: Instant) {
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || self.stream.set_read_timeout(Some(left)).is_err() {
                return;
            }
            match self.stream.read(&mut [0; RECEIVED]) {
                Ok(0) => return,
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return,
            }
        }
    }

    fn next_line(&mut self) -> Option<Vec<u8>> {
        let new = &self.input[self.scanned..];
        let Some(end) = new.iter().position(|&byte| byte == b'\n') else {
            self.scanned = self.input.len();
            return None;
        };
        let end = std::mem::take(&mut self.scanned) + end;
        Some(self.input.drain(..=end).collect())
    }

    /// Receives once; whether anything came.
    fn receive(&mut self, flags: RecvFlags) -> Result<bool> {
        let mut bytes = [0; RECEIVED];
        let descriptors = &mut self.descriptors;
        let received = passing::receive(self.stream.as_fd(), &mut bytes, flags, |fd| {
            descriptors.push(fd);
        });
        match received {
            Ok(0) => bail!("the other process has hung up"),
            Ok(len) => self.input.extend_from_slice(&bytes[..len]),
            Err(Errno::AGAIN) => return Ok(false),
            Err(error) => return Err(error).context("the other process has hung up"),
        }
        // The next one may have begun.
        if self.input.len() > MOST_LINE + RECEIVED {
            bail!("the other process says too much");
        }
        if self.descriptors.len() > passing::MOST_DESCRIPTORS {
            bail!("the other process gives too many descriptors");
        }
        Ok(true)
    }
}

impl AsFd for Line {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}
