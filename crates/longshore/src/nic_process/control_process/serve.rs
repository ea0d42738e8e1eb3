//! One connection's thread: what the client asks, what it shows, and what it is answered. The client may have it wait, and it alone waits then.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use attachment::{Connection, ConnectionError};
use linux::SocketExaminer;
use rustix::event::{PollFd, PollFlags, poll};
use wire::SeqNum;

use super::super::channel::Kind;
use super::calls::Caller;
use crate::control::{Answer, Conversation, CounterGroup, IDLE, Request, line};

/// Serves a connection until it ends; `examiner` is for sockets behind the NIC's interfaces, if this kernel can tell of them.
///
/// # Errors
/// Why it is ended.
pub fn serve(
    mut stream: UnixStream,
    caller: &Caller,
    is_trusted: bool,
    examiner: Option<&SocketExaminer>,
) -> Result<()> {
    let mut conversation = Conversation::new(is_trusted);
    stream.set_read_timeout(Some(IDLE))?;
    stream.set_nonblocking(false)?;
    loop {
        while let Some(request) = conversation.next_request() {
            let answer = request.map_or_else(Ok, |request| answer(&request, caller))?;
            write(&mut stream, &line(&answer)?)?;
            if answer == Answer::Attached {
                return attach(stream, caller, examiner);
            }
        }
        let mut chunk = [0; 1024];
        match stream.read(&mut chunk)? {
            0 => return Ok(()),
            len => conversation.take(&chunk[..len])?,
        }
    }
}

/// What to answer to a line.
fn answer(request: &Request, caller: &Caller) -> Result<Answer> {
    Ok(match request {
        Request::Stat => {
            let groups = caller.ask(Kind::Stat, &[], None)?;
            Answer::Stat(serde_json::from_slice::<Vec<CounterGroup>>(&groups)?)
        }
        Request::Sockets => Answer::Error("the sockets are Linux's: ask `ss -ti`".to_owned()),
        Request::Restore { .. } | Request::Drain { .. } => {
            Answer::Error("the connections are Linux's".to_owned())
        }
        Request::Reload => {
            Answer::Error("a NIC reads no file again; restart it, connections go on".to_owned())
        }
        Request::Fault { .. } => {
            let refused = caller.ask(Kind::Fault, &serde_json::to_vec(request)?, None)?;
            match String::from_utf8(refused) {
                Ok(why) if why.is_empty() => Answer::Done,
                why => Answer::Error(why.unwrap_or_default()),
            }
        }
        Request::TakeOver(_) => {
            let remedy = "another `longshore nic` takes over by its --state";
            Answer::Error(remedy.to_owned())
        }
        Request::Attach => Answer::Attached,
    })
}

/// Writes all, in as long as a client may be idle.
fn write(stream: &mut UnixStream, mut bytes: &[u8]) -> Result<()> {
    let until = Instant::now() + IDLE;
    while !bytes.is_empty() {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            bail!("the client does not read the answer");
        }
        stream.set_write_timeout(Some(left))?;
        match stream.write(bytes) {
            Ok(written) => bytes = &bytes[written..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Does what a library asks for, one request after the other.
fn attach(stream: UnixStream, caller: &Caller, examiner: Option<&SocketExaminer>) -> Result<()> {
    let examiner = examiner.context("this kernel has no socket diagnostics")?;
    let mut examiner = examiner.another()?;
    let mut connection = Connection::new(OwnedFd::from(stream));
    loop {
        let incoming = match connection.poll_request() {
            Ok(Some(incoming)) => incoming,
            Ok(None) => {
                let asked = PollFd::from_borrowed_fd(connection.as_fd(), PollFlags::IN);
                poll(&mut [asked], None)?;
                continue;
            }
            Err(ConnectionError::Closed) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        if !caller.wait(&incoming.request, connection.as_fd())? {
            return Ok(());
        }
        let mut failed = None;
        let answer = incoming.answer(caller.uid(), &mut examiner, |admitted| {
            let (mut bytes, file) = admitted.to_bytes();
            let answered = caller.ask(Kind::Request, &bytes, file);
            l5p::crypto::wipe(&mut bytes);
            let answered = answered.map_err(anyhow::Error::from).and_then(|answer| {
                let answer = answer
                    .first_chunk()
                    .context("the NIC's answer is malformed")?;
                attachment::Answer::from_bytes(answer).context("the NIC's answer is malformed")
            });
            answered.unwrap_or_else(|error| {
                failed = Some(error);
                attachment::Answer::at(SeqNum(0))
            })
        });
        failed.map_or(Ok(()), Err)?;
        connection.answer(answer)?;
    }
}
