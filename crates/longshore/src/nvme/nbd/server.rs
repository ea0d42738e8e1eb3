//! The listening socket and the clients.

mod requests;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use attachment::listening::{Listening, Unusable};
use rustix::event::{Timespec, epoll};

use super::client::{Brought, Client};
use super::export::Export;
use super::job::Job;
use super::memory::Memory;
use crate::disk::Block;
use crate::log::LIMITED;
use crate::nvme::initiator::Initiator;
use wire::nbd::{Errno, Kind, Reply, Request};

/// The server could not be made, or can't go on.
#[derive(Debug, thiserror::Error)]
pub(in crate::nvme) enum ServerError {
    #[error("a server is running on {0}; give --nbd another path")]
    InUse(PathBuf),
    #[error("{0} exists and is not a socket; give --nbd another path")]
    NotASocket(PathBuf),
    #[error("can't listen on {0}: {1}; give --nbd a path in a directory that you may write to")]
    Bind(PathBuf, io::Error),
    #[error("the NBD sockets can't be waited for: {0}")]
    System(#[from] rustix::io::Errno),
}

/// Clients at most.
const MOST_CLIENTS: usize = 64;
/// Requests under way of one client at most.
const MOST_REQUESTS: usize = 512;
/// epoll's name for the listener.
const LISTENER: u64 = u64::MAX;

/// An export that is served.
#[derive(Debug)]
pub(in crate::nvme) struct Server {
    listening: Listening,
    epoll: OwnedFd,
    export: Export,
    memory: Memory,
    /// A block of zeroes, for controllers that don't make any.
    zeroes: Block,
    clients: Vec<Slot>,
    jobs: Vec<Option<Job>>,
    free_jobs: Vec<usize>,
    /// Jobs of which commands are still to be submitted.
    backlog: VecDeque<usize>,
    /// The job of a command, by the command's place.
    commands: Vec<Option<usize>>,
    /// A client waits for memory.
    starved: bool,
    /// A client has taken answers that it was behind with: more of it is to be read, of which epoll may not tell.
    has_more: bool,
    accepts: bool,
}

/// A place for a client.
#[derive(Debug, Default)]
struct Slot {
    client: Option<Client>,
    /// Counts the clients that were here.
    generation: u64,
}

impl Server {
    /// Serves those who connect to a socket that [`listen`] gave.
    pub(in crate::nvme) fn new(
        listening: Listening,
        export: Export,
        memory: Memory,
    ) -> Result<Server, ServerError> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let data = epoll::EventData::new_u64(LISTENER);
        epoll::add(&epoll, &listening, data, epoll::EventFlags::IN)?;
        let mut zeroes = Vec::new();
        // Registered memory is zeroed when it is made, and this block is only ever read.
        memory.take(export.most_data, &mut zeroes);
        let (zeroes, _) = zeroes.pop().expect("nothing else was taken yet");
        Ok(Server {
            listening,
            epoll,
            export,
            memory,
            zeroes,
            clients: Vec::new(),
            jobs: Vec::new(),
            free_jobs: Vec::new(),
            backlog: VecDeque::new(),
            commands: Vec::new(),
            starved: false,
            has_more: false,
            accepts: true,
        })
    }

    /// What to wait on for reading.
    pub(in crate::nvme) fn fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }

    /// Whether requests are under way.
    pub(in crate::nvme) fn is_busy(&self) -> bool {
        self.jobs.len() > self.free_jobs.len() || {
            let mut clients = self.clients.iter().flat_map(|slot| &slot.client);
            clients.any(Client::has_output)
        }
    }

    /// Takes no more requests.
    pub(in crate::nvme) fn leave(&mut self) {
        self.accepts = false;
        for at in 0..self.clients.len() {
            if let Some(client) = &mut self.clients[at].client {
                client.is_leaving = true;
            }
            self.look_after(at);
        }
    }

    /// Serves the clients that are ready. Whether anything was done.
    pub(in crate::nvme) fn poll(&mut self, initiator: &mut Initiator) -> Result<bool, ServerError> {
        let progress = self.serve_ready()?;
        Ok(progress | self.submit(initiator))
    }

    /// Takes in what clients bring, and sends what they are to get. Whether anything was done, or is left to do.
    fn serve_ready(&mut self) -> Result<bool, ServerError> {
        let mut progress = false;
        let mut events = [epoll::Event {
            flags: epoll::EventFlags::empty(),
            data: epoll::EventData::new_u64(0),
        }; 64];
        let at_once = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let count = match epoll::wait(&self.epoll, &mut events[..], Some(&at_once)) {
            Err(rustix::io::Errno::INTR) => 0,
            other => other?,
        };
        for event in &events[..count] {
            progress = true;
            match event.data.u64() {
                LISTENER => self.accept(),
                at => {
                    let (at, flags) = (at as usize, event.flags);
                    self.serve(at);
                    // Its socket is closed, and answers would not reach it. Epoll tells of it all the time, until what it brought is under way.
                    if flags.contains(epoll::EventFlags::HUP) && self.has_begun_all(at) {
                        self.drop_client(at);
                    }
                }
            }
        }
        if std::mem::take(&mut self.starved) | std::mem::take(&mut self.has_more) {
            for at in 0..self.clients.len() {
                self.serve(at);
            }
        }
        Ok(progress | self.has_more)
    }

    /// Whether nothing that a client has sent waits for room.
    fn has_begun_all(&self, at: usize) -> bool {
        let client = self.clients[at].client.as_ref();
        client.is_some_and(|client| {
            client.waiting.is_none() && (client.is_leaving || client.takes_requests())
        })
    }

    fn accept(&mut self) {
        while let Ok(stream) = self.listening.accept() {
            let free = self.clients.iter().position(|slot| slot.client.is_none());
            let at = free.unwrap_or(self.clients.len());
            if !self.accepts || at == MOST_CLIENTS || stream.set_nonblocking(true).is_err() {
                tracing::warn!(target: LIMITED, "a client was turned away");
                continue;
            }
            if at == self.clients.len() {
                self.clients.push(Slot::default());
            }
            let data = epoll::EventData::new_u64(at as u64);
            if epoll::add(&self.epoll, &stream, data, epoll::EventFlags::IN).is_err() {
                continue;
            }
            let slot = &mut self.clients[at];
            slot.generation += 1;
            slot.client = Some(Client::new(stream));
            self.serve(at);
        }
    }

    /// Takes in what a client brings, and sends what it is to get.
    fn serve(&mut self, at: usize) {
        let waiting = match self
            .clients
            .get_mut(at)
            .and_then(|slot| slot.client.as_mut())
        {
            None => return,
            Some(client) => client.waiting.take(),
        };
        if let Some(request) = waiting {
            self.take_request(at, request);
        }
        while let Some(client) = &mut self.clients[at].client
            && client.takes_requests()
        {
            match client.poll(&self.export) {
                Ok(Brought::Nothing) => break,
                Ok(Brought::Request(request)) => self.take_request(at, request),
                Ok(Brought::Write(request, blocks)) => self.begin(at, request, blocks),
                Ok(Brought::Refused(request, error)) => {
                    client.reply_to(&request, Err(error), Vec::new());
                }
                Ok(Brought::End) => client.is_leaving = true,
                Err(error) => {
                    tracing::info!(%error, "a client is let go");
                    return self.drop_client(at);
                }
            }
        }
        self.look_after(at);
    }

    /// Sends, and tells epoll what to look for; lets a client go that has nothing more to get.
    fn look_after(&mut self, at: usize) {
        let Some(client) = self
            .clients
            .get_mut(at)
            .and_then(|slot| slot.client.as_mut())
        else {
            return;
        };
        let is_through = client.is_leaving && client.in_flight == 0;
        let was_behind = client.is_behind();
        if client.flush().is_err() || (is_through && !client.has_output()) {
            return self.drop_client(at);
        }
        self.has_more |= was_behind && !client.is_behind();
        let interest = (client.takes_requests(), client.has_output());
        if interest != client.interest {
            let mut flags = epoll::EventFlags::empty();
            flags.set(epoll::EventFlags::IN, interest.0);
            flags.set(epoll::EventFlags::OUT, interest.1);
            let data = epoll::EventData::new_u64(at as u64);
            if epoll::modify(&self.epoll, &client.stream, data, flags).is_err() {
                return self.drop_client(at);
            }
            client.interest = interest;
        }
    }

    fn drop_client(&mut self, at: usize) {
        let slot = self.clients.get_mut(at);
        if let Some(client) = slot.and_then(|slot| slot.client.take()) {
            // Closing the socket takes it out of epoll.
            drop(client);
            self.starved = true;
        }
    }
}

impl Client {
    /// Whether more requests are read.
    fn takes_requests(&self) -> bool {
        let has_room = self.in_flight < MOST_REQUESTS && !self.is_behind();
        !self.is_leaving && self.waiting.is_none() && has_room
    }

    fn reply_to(
        &mut self,
        request: &Request,
        result: Result<(), Errno>,
        blocks: Vec<(Block, u32)>,
    ) {
        let reply = match request.kind {
            Kind::Read if self.structured => Reply::structured(request, result),
            _ => Reply::simple(request.cookie, result),
        };
        self.reply(&reply, blocks);
    }
}

/// Listens at `path`, for this user only. A socket that a dead server left there is replaced. Clients wait until there is a [`Server`].
pub(in crate::nvme) fn listen(path: &Path) -> Result<Listening, ServerError> {
    Listening::bind(path).map_err(|why| match why {
        Unusable::InUse => ServerError::InUse(path.to_path_buf()),
        Unusable::NotASocket => ServerError::NotASocket(path.to_path_buf()),
        Unusable::Refused(error) => ServerError::Bind(path.to_path_buf(), error),
    })
}
