//! The connection between the two processes: lines of JSON, some with descriptors.

use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use attachment::passing;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::PATIENCE;

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
        })
    }

    /// Says something, with descriptors; waits [`PATIENCE`] at most for the other side to take all of it.
    pub(super) fn say(
        &mut self,
        what: &impl Serialize,
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<()> {
        let mut line = serde_json::to_vec(what)?;
        line.push(b'\n');
        ensure!(line.len() <= MOST_LINE, "a word of {} bytes", line.len());
        let until = Instant::now() + PATIENCE;
        let (mut left, mut descriptors) = (&line[..], descriptors);
        while !left.is_empty() {
            let socket = self.stream.as_fd();
            match passing::send_with(socket, left, descriptors, SendFlags::DONTWAIT) {
                Ok(sent) => (left, descriptors) = (&left[sent..], &[]),
                Err(Errno::AGAIN) => {
                    let time = until.saturating_duration_since(Instant::now());
                    ensure!(!time.is_zero(), "the other process does not listen");
                    let room = PollFd::new(&self.stream, PollFlags::OUT);
                    match poll(&mut [room], Some(&time.try_into()?)) {
                        Ok(_) | Err(Errno::INTR) => {}
                        Err(error) => return Err(error.into()),
                    }
                }
                Err(error) => return Err(error).context("the other process is gone"),
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

    /// The same; waits for it.
    pub(super) fn hear<T: DeserializeOwned>(&mut self, patience: Duration) -> Result<T> {
        let until = Instant::now() + patience;
        loop {
            if let Some(line) = self.next_line() {
                return serde_json::from_slice(&line).context("an unknown word");
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                bail!(
                    "the other process does not answer within {} s",
                    patience.as_secs()
                );
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

    /// Waits for the other side to hang up.
    pub(super) fn await_end(mut self, patience: Duration) {
        let _ = self.stream.set_read_timeout(Some(patience));
        let _ = self.stream.read(&mut [0]);
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
            Ok(0) => bail!("the other process has ended"),
            Ok(len) => self.input.extend_from_slice(&bytes[..len]),
            Err(Errno::AGAIN) => return Ok(false),
            Err(error) => return Err(error).context("the other process has ended"),
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
