//! The application: a server of Flash's kind, one event loop (Connection handoff policies §4.2).

use super::super::nic::Command;
use super::super::{Application, Owner, PORT, PairId, SEND_BUFFER, World};
use super::WRITABLE;
use crate::handoff::workload::{Content, PAGE, Request};

impl World {
    /// One thing that the application does for a connection. Between two of them interrupts are served.
    pub(super) fn application(&mut self, id: PairId) {
        let costs = self.host.costs;
        let socket = self.host.touch_socket(id);
        self.host.bill.system += socket;
        let pair = self.pair(id);
        let Some((request, near)) =
            pair.and_then(|pair| Some((pair.request, pair.near.as_deref_mut()?)))
        else {
            return;
        };
        near.ready = false;
        match near.application {
            Application::Unknown => {
                near.application = Application::Idle;
                self.host.bill.system += costs.accept_system;
                self.host.bill.user += costs.accept_user;
                self.host_wakes(id);
            }
            Application::Idle => match request {
                Some(request) if near.readable >= request.request => {
                    self.application_answers(id, &request)
                }
                _ if near.ended => {
                    near.application = Application::Done;
                    self.host.bill.system += costs.accept_system / 2;
                    self.application_closes(id);
                }
                _ => {}
            },
            Application::Sending(left) => self.application_goes_on(id, left, request),
            Application::Done => {}
        }
    }

    /// Reads a request and writes the header of the response.
    fn application_answers(&mut self, id: PairId, request: &Request) {
        let costs = self.host.costs;
        let copied = f64::from(request.request + request.header) * costs.copied_byte;
        self.host.bill.system += costs.request_system + copied as u64;
        self.host.bill.user += costs.request_user;
        match request.kind {
            Content::Static => self.host.bill.system += self.host.file,
            Content::Dynamic => self.host.bill.user += costs.dynamic_user,
        }
        if let Some(near) = self.near(id) {
            near.readable = 0;
            near.turn = SEND_BUFFER;
            near.application = Application::Sending(request.content);
        }
        self.application_enqueues(id, request.header, request.content);
        self.application_next(id);
    }

    /// Enqueues a page, if there is room.
    fn application_goes_on(&mut self, id: PairId, left: u32, request: Option<Request>) {
        let costs = self.host.costs;
        let bytes = left.min(PAGE);
        let Some(near) = self.near(id) else { return };
        if left == 0 {
            near.application = Application::Idle;
            return;
        }
        if near.buffered + WRITABLE > SEND_BUFFER {
            near.turn = SEND_BUFFER;
            return;
        }
        near.turn = near.turn.saturating_sub(bytes);
        near.application = match left - bytes {
            0 => Application::Idle,
            left => Application::Sending(left),
        };
        self.host.bill.system += costs.page;
        if request.is_some_and(|request| request.kind == Content::Dynamic) {
            self.host.bill.system += (f64::from(bytes) * costs.copied_byte) as u64;
        }
        self.application_enqueues(id, bytes, left - bytes);
        self.application_next(id);
    }

    /// The application goes on with what it has begun, before it looks at other connections; but for a buffer's worth
    /// at most, then the others have their turn.
    fn application_next(&mut self, id: PairId) {
        let Some(near) = self.near(id) else { return };
        if !matches!(near.application, Application::Sending(_)) || near.ready {
            return;
        }
        near.ready = true;
        if near.turn > 0 {
            self.host.ready.push_front(id);
        } else {
            near.turn = SEND_BUFFER;
            self.host.ready.push_back(id);
        }
    }

    /// An enqueue to the send buffer.
    fn application_enqueues(&mut self, id: PairId, bytes: u32, waiting: u32) {
        let now = self.instant();
        let Some(near) = self.pairs[id.index as usize].near.as_deref_mut() else {
            return;
        };
        near.buffered += bytes;
        let selector = &mut self.host.selector;
        let choice = selector.sent(now, PORT, id, &mut near.record, bytes, u64::from(waiting));
        match near.owner {
            Owner::Host => {
                near.tcp.queue(now, bytes);
                self.host.touch_stack(id);
                self.host_sends(id);
                self.arm_near(id);
            }
            Owner::Nic => self.host_commands(id, Command::Send(bytes)),
        }
        self.host_chooses(id, choice);
    }

    fn application_closes(&mut self, id: PairId) {
        let now = self.instant();
        let Some(near) = self.near(id) else { return };
        match near.owner {
            Owner::Host => {
                near.tcp.close(now);
                self.host.touch_stack(id);
                self.host_follows(id);
            }
            Owner::Nic => self.host_commands(id, Command::Close),
        }
    }
}
