//! Requests: from what a client has asked for to its answer.

use host::nvme::initiator::Completion;
use wire::nbd::{Errno, Kind, Request};

use super::super::job::Job;
use super::super::memory::held_by;
use super::Server;
use crate::disk::Block;
use crate::log::LIMITED;
use crate::nvme::initiator::{Initiator, SubmitError};

impl Server {
    /// A command is complete.
    pub(in crate::nvme) fn complete(&mut self, done: &Completion) {
        let place = self.commands.get_mut(done.id.index());
        let Some(at) = place.and_then(Option::take) else {
            return;
        };
        if let Some(job) = &mut self.jobs[at] {
            job.complete(done.status);
            match job.is_done() {
                true => self.finish(at),
                // A flush may be next.
                false if !job.is_asked() => self.backlog.push_back(at),
                false => {}
            }
        }
    }

    pub(super) fn take_request(&mut self, at: usize, request: Request) {
        let slot = &mut self.clients[at];
        let Some(client) = &mut slot.client else {
            return;
        };
        if request.kind == Kind::Disconnect {
            client.is_leaving = true;
            return;
        }
        let mut blocks = Vec::new();
        if let Err(error) = self.export.check(&request) {
            match request.payload_len() {
                0 => client.reply_to(&request, Err(error), Vec::new()),
                _ => client.refuse(request, error),
            }
            return;
        }
        let len = Job::memory_len(&request, &self.export);
        if !(self.memory.allows(client.held, len) && self.memory.take(len, &mut blocks)) {
            client.waiting = Some(request);
            self.starved = true;
            return;
        }
        client.held += held_by(&blocks);
        match request.kind {
            Kind::Write => client.receive_into(request, blocks),
            _ => self.begin(at, request, blocks),
        }
    }

    /// Begins to carry out a request.
    pub(super) fn begin(&mut self, at: usize, request: Request, blocks: Vec<(Block, u32)>) {
        let slot = &mut self.clients[at];
        let Some(client) = &mut slot.client else {
            return;
        };
        client.in_flight += 1;
        let job = Job::new((at, slot.generation), request, blocks, &self.export);
        let place = match self.free_jobs.pop() {
            Some(place) => {
                self.jobs[place] = Some(job);
                place
            }
            None => {
                self.jobs.push(Some(job));
                self.jobs.len() - 1
            }
        };
        self.backlog.push_back(place);
    }

    /// Submits what there is room for.
    pub(super) fn submit(&mut self, initiator: &mut Initiator) -> bool {
        let mut progress = false;
        while let Some(&at) = self.backlog.front() {
            let Some(job) = &mut self.jobs[at] else {
                self.backlog.pop_front();
                continue;
            };
            if job.is_asked() {
                self.backlog.pop_front();
                if job.is_done() {
                    progress = true;
                    self.finish(at);
                }
                continue;
            }
            match job.submit(initiator, &self.export, &self.zeroes) {
                Ok(Some(id)) => {
                    progress = true;
                    if self.commands.len() <= id.index() {
                        self.commands.resize(id.index() + 1, None);
                    }
                    self.commands[id.index()] = Some(at);
                }
                // Its flush comes after all else, of which a completion tells.
                Ok(None) => {
                    self.backlog.pop_front();
                }
                Err(error) if error.is_passing() => return progress,
                Err(error) => job.error = Some(refused(&error)),
            }
        }
        progress
    }

    /// A job is done: the client is told.
    fn finish(&mut self, at: usize) {
        let Some(job) = self.jobs[at].take() else {
            return;
        };
        self.free_jobs.push(at);
        self.starved = true;
        let (place, generation) = job.client;
        let slot = &mut self.clients[place];
        let Some(client) = slot
            .client
            .as_mut()
            .filter(|_| slot.generation == generation)
        else {
            return;
        };
        client.in_flight -= 1;
        let result = job.error.map_or(Ok(()), Err);
        let blocks = match (job.request.kind, result) {
            (Kind::Read, Ok(())) => job.blocks,
            _ => {
                client.held -= held_by(&job.blocks);
                Vec::new()
            }
        };
        client.reply_to(&job.request, result, blocks);
        self.look_after(place);
    }
}

fn refused(error: &SubmitError) -> Errno {
    tracing::warn!(target: LIMITED, %error, "a command was not taken");
    Errno::Io
}
