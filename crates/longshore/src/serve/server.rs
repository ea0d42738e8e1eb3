//! The sessions of a server, by socket.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use host::{
    CloseReason, Event, ListenOptions, ListenerId, Offload, SocketError, SocketId, Stack, TlsRole,
};

use super::counters::ServeCounters;
use super::files::{FileSource, Files};
use super::session::{Fate, Session, Shared};
use crate::access_log::AccessLog;
use crate::admission::Admission;
use crate::attach::Attached;
use crate::control::{Answer, CounterGroup, Request};
use crate::log::LIMITED;
use crate::matching::Matcher;
use crate::min_rate::MinRate;
use crate::store::Store;

/// What clients may do.
pub(super) struct Rules {
    /// What they may not send.
    pub(super) matcher: Option<Matcher>,
    /// What they have to take.
    pub(super) min_rate: MinRate,
    /// How long they may let nothing of a response go on its way; what is on its way, the stack watches.
    pub(super) send_timeout: Option<Duration>,
}

/// A server of files.
pub(super) struct Server {
    store: Store,
    tls: Option<TlsRole>,
    offload: Offload,
    files: Files,
    pub(super) rules: Rules,
    admission: Admission,
    /// Where it listens.
    listeners: Vec<ListenerId>,
    counters: ServeCounters,
    access_log: Option<AccessLog>,
    scratch: Vec<u8>,
    /// By [`SocketId::index`].
    sessions: Vec<Option<Session>>,
    open: usize,
    /// Sessions that can do more without an event.
    ready: VecDeque<SocketId>,
    /// Another process takes new clients.
    drains: bool,
}

impl Server {
    /// Serves `store`, with TLS when there is a role for it, to clients that keep the rules.
    pub(super) fn new(
        store: Store,
        tls: Option<TlsRole>,
        offload: Offload,
        way: FileSource,
        rules: Rules,
    ) -> Self {
        Server {
            store,
            tls,
            offload,
            files: Files::new(way),
            rules,
            admission: Admission::default(),
            listeners: Vec::new(),
            counters: ServeCounters::default(),
            access_log: None,
            scratch: Vec::new(),
            sessions: Vec::new(),
            open: 0,
            ready: VecDeque::new(),
            drains: false,
        }
    }

    /// Has each request logged.
    pub(super) fn set_access_log(&mut self, log: AccessLog) {
        self.access_log = Some(log);
    }

    /// Has clients that are not done yet keep another rate and timeout, too.
    pub(super) fn set_limits(&mut self, min_rate: MinRate, send_timeout: Option<Duration>) {
        self.rules.min_rate = min_rate;
        self.rules.send_timeout = send_timeout;
    }

    pub(super) fn listen(
        &mut self,
        stack: &mut Stack,
        address: SocketAddr,
    ) -> Result<(), SocketError> {
        let listener = stack.listen(address, ListenOptions::default())?;
        self.listeners.push(listener);
        Ok(())
    }

    /// Whether there are clients, whose patience has to be watched, or lines of the log to write.
    pub(super) fn is_busy(&self) -> bool {
        self.open > 0 || self.access_log.as_ref().is_some_and(AccessLog::is_waiting)
    }

    /// Does what the events ask for. Whether there were any.
    pub(super) fn poll(&mut self, now: Instant, stack: &mut Stack) -> bool {
        let mut progress = self.watch_memory(now, stack);
        for _ in 0..self.ready.len() {
            let Some(id) = self.ready.pop_front() else {
                break;
            };
            self.drive(now, stack, id, Session::drive);
            progress = true;
        }
        while let Some(event) = stack.poll_event() {
            progress = true;
            match event {
                Event::Accepted(listener) => self.accept(now, stack, listener),
                Event::Secured(id) => {
                    if let Some(matcher) = &self.rules.matcher {
                        matcher.begin(now, stack, id);
                    }
                    let is_http2 = stack.alpn(id) == Some(b"h2");
                    if is_http2 {
                        self.counters.http2_connections += 1;
                        // A turn's frames are written together; the next turn's wait for no acknowledgement.
                        let _ = stack.set_nodelay(id, true);
                    }
                    self.with(id, |session| session.handle_secured(now, is_http2));
                    self.drive_new(now, stack, id);
                }
                Event::Readable(id) => {
                    self.with(id, Session::handle_readable);
                    self.drive(now, stack, id, Session::drive);
                }
                Event::Writable(id) => self.drive(now, stack, id, Session::drive),
                Event::Closed(id, reason) => self.closed(now, stack, id, &reason),
                Event::Connected(_)
                | Event::Urgent(_)
                | Event::Spliced(_)
                | Event::SpliceRefused(..)
                | Event::SpliceProgress(..)
                | Event::SpliceEnded(..) => {}
            }
        }
        self.fill_places(now, stack);
        progress
    }

    /// When to poll again if no event comes before.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.admission.poll_timeout()
    }

    /// Accepts what was held back, as far as the stack has memory for it again.
    fn watch_memory(&mut self, now: Instant, stack: &mut Stack) -> bool {
        let news = self.admission.poll(now, stack.memory_level());
        self.counters.memory_shortages += u64::from(news.is_worse);
        if news.retries {
            self.accept_held_back(now, stack);
        }
        news.retries
    }

    /// Accepts what was held back in the places of the sessions that have ended, and of those that end as soon as they begin.
    fn fill_places(&mut self, now: Instant, stack: &mut Stack) {
        while self.admission.retries() {
            self.accept_held_back(now, stack);
        }
    }

    fn accept_held_back(&mut self, now: Instant, stack: &mut Stack) {
        for at in 0..self.listeners.len() {
            self.accept(now, stack, self.listeners[at]);
        }
    }

    /// Ends the sessions that take too long, and writes the access log.
    pub(super) fn sweep(&mut self, now: Instant, stack: &mut Stack) {
        if let Some(log) = &mut self.access_log {
            log.flush();
        }
        self.drive_all(now, stack, Session::sweep);
        self.fill_places(now, stack);
    }

    /// Has clients end, each as soon as it can be told; or serves them on. Those that have been told stay told.
    pub(super) fn drain(&mut self, now: Instant, stack: &mut Stack, drains: bool) {
        self.drains = drains;
        if drains {
            self.drive_all(now, stack, Session::drain);
        }
    }

    /// Resets the clients that are left.
    pub(super) fn abort_all(&mut self, now: Instant, stack: &mut Stack) {
        self.drive_all(now, stack, Session::abort);
    }

    /// The server ends: clients that can be told are.
    pub(super) fn leave(&mut self, now: Instant, stack: &mut Stack) {
        self.drive_all(now, stack, Session::leave);
    }

    /// Answers on the control socket.
    pub(super) fn answer(&self, request: Request, attached: &mut Attached) -> Answer {
        attached.answer(request, || {
            [CounterGroup::new("http", self.counters().iter())]
        })
    }

    pub(super) fn counters(&self) -> ServeCounters {
        let files = self.files.stats();
        ServeCounters {
            connections_open: self.open as u64,
            files_mapped: self.files.len() as u64,
            files_unmappable: self.files.unmapped(),
            file_cache_hits: files.hits,
            file_cache_misses: files.misses,
            access_log_lost: self.access_log.as_ref().map_or(0, AccessLog::lost),
            ..self.counters
        }
    }

    fn accept(&mut self, now: Instant, stack: &mut Stack, listener: ListenerId) {
        while self.admission.may_accept(now)
            && let Some(id) = stack.accept(listener)
        {
            self.admission.accepted(now);
            self.counters.connections += 1;
            if let Some(role) = &self.tls
                && let Err(error) = stack.start_tls(now, id, role.clone(), self.offload)
            {
                tracing::debug!(%error, "no TLS");
                let _ = stack.abort(now, id);
                continue;
            }
            let index = id.index();
            if self.sessions.len() <= index {
                self.sessions.resize_with(index + 1, || None);
            }
            let is_secured = self.tls.is_none();
            if let Some(matcher) = self.rules.matcher.as_ref().filter(|_| is_secured) {
                matcher.begin(now, stack, id);
            }
            let logged = self.access_log.as_ref().and_then(|_| stack.info(id));
            let client = logged.map(|info| info.remote);
            self.sessions[index] = Some(Session::new(id, now, is_secured, client));
            self.open += 1;
            self.drive_new(now, stack, id);
        }
    }

    fn closed(&mut self, now: Instant, stack: &mut Stack, id: SocketId, reason: &CloseReason) {
        match reason {
            CloseReason::SourceChanged { .. } | CloseReason::SourceGone { .. } => {
                tracing::warn!(target: LIMITED, "a connection was reset: {reason}");
            }
            _ => tracing::debug!("a connection ended: {reason}"),
        }
        self.counters.send_timeouts += u64::from(*reason == CloseReason::TimedOut);
        self.remove(now, stack, id);
    }

    fn with(&mut self, id: SocketId, action: impl FnOnce(&mut Session)) {
        let session = self.sessions.get_mut(id.index()).and_then(Option::as_mut);
        if let Some(session) = session.filter(|session| session.id() == id) {
            action(session);
        }
    }

    fn drive(
        &mut self,
        now: Instant,
        stack: &mut Stack,
        id: SocketId,
        action: fn(&mut Session, Instant, &mut Shared<'_>) -> Fate,
    ) {
        let session = self.sessions.get_mut(id.index()).and_then(Option::as_mut);
        let Some(session) = session.filter(|session| session.id() == id) else {
            return;
        };
        let mut shared = Shared {
            stack,
            store: &self.store,
            files: &mut self.files,
            rules: &self.rules,
            drains: self.drains,
            sheds: self.admission.sheds(now),
            counters: &mut self.counters,
            access_log: self.access_log.as_mut(),
            scratch: &mut self.scratch,
        };
        match action(session, now, &mut shared) {
            Fate::Waits => {}
            Fate::Ready => self.ready.push_back(id),
            Fate::Over => self.remove(now, stack, id),
            Fate::Abort => {
                let _ = stack.abort(now, id);
                self.remove(now, stack, id);
            }
        }
    }

    /// The first time in a phase.
    fn drive_new(&mut self, now: Instant, stack: &mut Stack, id: SocketId) {
        let action = match self.drains {
            true => Session::drain,
            false => Session::drive,
        };
        self.drive(now, stack, id, action);
    }

    fn drive_all(
        &mut self,
        now: Instant,
        stack: &mut Stack,
        action: fn(&mut Session, Instant, &mut Shared<'_>) -> Fate,
    ) {
        for index in 0..self.sessions.len() {
            if let Some(session) = &self.sessions[index] {
                let id = session.id();
                self.drive(now, stack, id, action);
            }
        }
    }

    fn remove(&mut self, now: Instant, stack: &mut Stack, id: SocketId) {
        let Some(slot) = self.sessions.get_mut(id.index()) else {
            return;
        };
        if let Some(session) = slot.take_if(|session| session.id() == id) {
            session.log_unfinished(now, stack, self.access_log.as_mut());
            self.open -= 1;
            let _ = stack.close(now, id);
            self.admission.ended();
        }
    }
}
