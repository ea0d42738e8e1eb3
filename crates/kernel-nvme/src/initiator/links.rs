//! What an initiator does with its connections, one for each queue.

use std::os::fd::AsFd;
use std::time::Instant;

use attachment::Errno;
use l5p::nvme::initiator::Action;

use super::Initiator;
use crate::link::{Link, LinkEnv, Wanted};
use crate::receive::Stopped;
use crate::socket;

impl Initiator {
    pub(super) fn act(&mut self, now: Instant, action: Action) {
        match action {
            Action::Connect { queue } => self.connect(now, queue),
            Action::Negotiated { queue, negotiated } => {
                let depth = self.controller.queue(queue).map(|it| it.config().depth);
                let wanted = depth.filter(|_| queue > 0).map(|depth| Wanted {
                    placement: self.options.placement,
                    depth,
                });
                let wanted = wanted.filter(|_| self.nic.is_some());
                self.with_link(now, queue.into(), |link, env| {
                    link.negotiated(&negotiated, wanted, env);
                });
            }
            Action::Close { queue, how } => {
                // Commands that end with the connection are unmapped while it is there.
                self.settle();
                let link = self.links.get_mut(usize::from(queue));
                if let Some(link) = link.and_then(Option::take) {
                    link.close(how, &mut self.env(now));
                }
            }
        }
    }

    fn connect(&mut self, now: Instant, queue: u16) {
        if self.links.len() <= usize::from(queue) {
            self.links.resize_with(usize::from(queue) + 1, || None);
        }
        match Link::connect(queue, self.options.address) {
            Ok(link) => self.links[usize::from(queue)] = Some(link),
            Err(error) => self.controller.handle_lost(now, queue, error.to_string()),
        }
    }

    pub(super) fn receive(&mut self, now: Instant, queue: usize) -> bool {
        let received = self.with_link(now, queue, |link, env| {
            let stopped = link.receive(env);
            if let Err(Stopped::Refused(error)) = &stopped {
                link.terminate(*error, env);
            }
            stopped
        });
        let number = queue as u16;
        match received {
            None => false,
            Some(Ok(progress)) => progress,
            Some(Err(Stopped::Refused(error))) => {
                self.stop(queue);
                self.controller.handle_malformed(now, number, error);
                true
            }
            Some(Err(Stopped::Lost(reason))) => {
                self.stop(queue);
                self.controller.handle_lost(now, number, reason);
                true
            }
        }
    }

    pub(super) fn send(&mut self, now: Instant, queue: usize) -> bool {
        let threshold = self.options.map_threshold;
        let sent = self.with_link(now, queue, |link, env| {
            if link.is_open || !link.writable {
                return link.send(threshold, env);
            }
            socket::connected(link.socket.as_fd())?;
            link.is_open = true;
            env.controller.handle_connected(now, link.queue);
            link.send(threshold, env)
        });
        match sent {
            None => false,
            Some(Ok(progress)) => progress,
            Some(Err(Errno::PIPE | Errno::CONNRESET)) if self.is_open(queue) => {
                // What came before the end may be the reason for it.
                if let Some(Some(link)) = self.links.get_mut(queue) {
                    (link.readable, link.writable) = (true, false);
                }
                true
            }
            Some(Err(error)) => {
                self.stop(queue);
                let reason = match error {
                    Errno::CONNREFUSED => "refused".to_owned(),
                    error => error.to_string(),
                };
                self.controller.handle_lost(now, queue as u16, reason);
                true
            }
        }
    }

    /// The connection is of no more use; its end is the controller's to order.
    fn stop(&mut self, queue: usize) {
        if let Some(Some(link)) = self.links.get_mut(queue) {
            (link.readable, link.writable) = (false, false);
        }
    }

    fn is_open(&self, queue: usize) -> bool {
        let link = self.links.get(queue).and_then(Option::as_ref);
        link.is_some_and(|link| link.is_open)
    }

    fn with_link<R>(
        &mut self,
        now: Instant,
        queue: usize,
        call: impl FnOnce(&mut Link, &mut LinkEnv<'_>) -> R,
    ) -> Option<R> {
        let mut link = self.links.get_mut(queue)?.take()?;
        let result = call(&mut link, &mut self.env(now));
        self.links[queue] = Some(link);
        Some(result)
    }

    fn env(&mut self, now: Instant) -> LinkEnv<'_> {
        LinkEnv {
            now,
            controller: &mut self.controller,
            commands: &mut self.commands,
            memory: &self.memory,
            nic: self.nic.as_mut(),
            counters: &mut self.counters,
        }
    }
}
