//! What the events of the stack mean for the load balancer.

use std::time::Instant;

use host::{CloseReason, Event, SocketId, SpliceHandle, Stack};

use super::balancer::Balancer;
use super::checker::News;
use super::keys::Role;
use super::parts::Frontend;
use super::server::server;
use super::session::{Fate, Session, Shared};

impl Balancer {
    /// Does what an event of the stack asks for.
    pub(super) fn handle_event(&mut self, now: Instant, stack: &mut Stack, event: Event) {
        match event {
            Event::Accepted(listener) => {
                let owner = |frontend: &Frontend| frontend.listeners.contains(&listener);
                if let Some(index) = self.parts.frontends.iter().position(owner) {
                    self.accept(now, stack, index, listener);
                }
            }
            Event::Connected(id) => self.handle_socket(now, stack, id, SocketNews::Connected),
            Event::Readable(id) | Event::Writable(id) => {
                self.handle_socket(now, stack, id, SocketNews::Ready);
            }
            Event::Closed(id, reason) => {
                self.handle_socket(now, stack, id, SocketNews::Closed(reason));
            }
            Event::Secured(id) => self.handle_socket(now, stack, id, SocketNews::Secured),
            Event::Urgent(_) => {}
            Event::Spliced(handle) => self.handle_splice(now, stack, handle, |session, sh| {
                session.handle_spliced(sh);
                Fate::Waits
            }),
            Event::SpliceRefused(handle, why) => {
                self.handle_splice(now, stack, handle, |session, sh| {
                    session.handle_splice_refused(why, sh)
                });
            }
            Event::SpliceProgress(handle, legs) => {
                self.handle_splice(now, stack, handle, |session, sh| {
                    session.handle_splice_progress(legs, sh);
                    Fate::Waits
                });
            }
            Event::SpliceEnded(handle, report) => {
                self.handle_splice(now, stack, handle, |session, sh| {
                    session.handle_splice_ended(&report, sh)
                });
            }
        }
    }

    fn handle_socket(&mut self, now: Instant, stack: &mut Stack, id: SocketId, news: SocketNews) {
        match self.parts.roles.of(id) {
            None => {}
            Some(Role::Client(key) | Role::Server(key)) => match news {
                SocketNews::Ready => self.with(now, stack, key, |session, sh| {
                    session.handle_ready(id);
                    session.drive(sh)
                }),
                SocketNews::Connected => self.with(now, stack, key, |session, sh| {
                    session.handle_connected(id, sh)
                }),
                SocketNews::Secured => self.with(now, stack, key, |session, sh| {
                    session.handle_secured(id, sh);
                    session.drive(sh)
                }),
                SocketNews::Closed(reason) => self.with(now, stack, key, |session, sh| {
                    session.handle_closed(id, &reason, sh)
                }),
            },
            // It has closed, or sends bytes that belong to no request: it is useless.
            Some(Role::Idle(key)) => {
                server(&mut self.parts.pools, key).drop_idle(now, id, stack, &mut self.parts.roles);
            }
            Some(Role::Check(_)) => {
                let news = match news {
                    SocketNews::Connected => News::Connected,
                    SocketNews::Secured => News::Secured,
                    SocketNews::Ready => News::Ready,
                    SocketNews::Closed(reason) => News::Closed(reason),
                };
                self.check(now, stack, Some((id, news)));
            }
        }
    }

    fn handle_splice(
        &mut self,
        now: Instant,
        stack: &mut Stack,
        handle: SpliceHandle,
        action: impl FnOnce(&mut Session, &mut Shared<'_>) -> Fate,
    ) {
        let entry = self.parts.splices.get(handle.index()).copied().flatten();
        if let Some((_, key)) = entry.filter(|(known, _)| *known == handle) {
            self.with(now, stack, key, action);
        }
    }
}

enum SocketNews {
    Connected,
    Secured,
    Ready,
    Closed(CloseReason),
}
