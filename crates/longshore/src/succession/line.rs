//! The connection between the two processes: lines of JSON, some with descriptors.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use attachment::passing;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::PATIENCE;

/// Bytes of a line at most: connections are named a few at a time.
const MOST_LINE: usize = 1 << 20;

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
    /// On a connected socket, which from here on waits [`PATIENCE`] for room at most.
    pub(super) fn new(stream: UnixStream) -> io::Result<Line> {
        stream.set_nonblocking(false)?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Line {
            stream,
            input: Vec::new(),
            scanned: 0,
            descriptors: Vec::new(),
        })
    }

    /// Says something, with descriptors.
    pub(super) fn say(
        &mut self,
        what: &impl Serialize,
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<()> {
        let mut line = serde_json::to_vec(what)?;
        line.push(b'\n');
        let flags = SendFlags::empty();
        let sent = passing::send_with(self.stream.as_fd(), &line, descriptors, flags);
        let sent = sent.context("the other process is gone")?;
        self.stream
            .write_all(&line[sent..])
            .context("the other process does not listen")
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
        let mut bytes = [0; 16 * 1024];
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
        if self.input.len() > MOST_LINE {
            bail!("the other process says too much");
        }
        Ok(true)
    }
}

impl AsFd for Line {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}
