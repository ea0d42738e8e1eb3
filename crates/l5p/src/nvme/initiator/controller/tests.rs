//! A controller against hand-made answers.

mod discovery;
mod peer;
mod recovery;
mod service;
mod setup;
mod traces;

use std::time::Duration;

use wire::nvme::Nqn;
use wire::nvme::command::{Blocks, Io, Status};

use super::*;
use peer::Peer;

const BLOCK: u32 = 512;

fn config() -> Config {
    let host = "nqn.2014-08.org.nvmexpress:uuid:host".parse().unwrap();
    Config {
        io_queues: 2,
        depth: 4,
        outstanding: 16,
        ..Config::new(
            "nqn.2024-01.test:one".parse::<Nqn>().unwrap(),
            host,
            [9; 16],
        )
    }
}

/// A controller and its peer at some time.
struct Pair {
    now: Instant,
    host: Controller,
    peer: Peer,
    closed: Vec<(u16, Closing)>,
}

impl Pair {
    fn new(config: Config) -> Pair {
        let now = Instant::now();
        let mut host = Controller::new(config);
        host.start(now);
        Pair {
            now,
            host,
            peer: Peer::default(),
            closed: Vec::new(),
        }
    }

    fn ready(config: Config) -> Pair {
        let mut pair = Pair::new(config);
        pair.run();
        assert_eq!(pair.host.poll_event(), Some(Event::Ready));
        pair
    }

    /// Goes on until neither side has anything to do at this time.
    fn run(&mut self) {
        loop {
            let mut idle = true;
            while let Some(action) = self.host.poll_action() {
                idle = false;
                match action {
                    Action::Connect { queue } if self.peer.reachable => {
                        self.host.handle_connected(self.now, queue);
                        self.peer.connected(queue);
                    }
                    Action::Connect { queue } => {
                        self.host.handle_lost(self.now, queue, "refused".into());
                    }
                    Action::Negotiated { .. } => {}
                    Action::Close { queue, how } => self.closed.push((queue, how)),
                }
            }
            for queue in 0..4 {
                while let Some(outgoing) = self.host.poll_pdu(queue) {
                    idle = false;
                    for (pdu, data) in self.peer.answer(queue, &outgoing) {
                        if self.host.handle_header(self.now, queue, &pdu).is_ok() {
                            self.host.handle_end(self.now, queue, true, &data);
                        }
                    }
                }
            }
            if idle {
                return;
            }
        }
    }

    /// Lets time pass until the next timer, and runs.
    fn step(&mut self) {
        self.now = self
            .host
            .poll_timeout()
            .expect("a timer runs")
            .max(self.now);
        self.host.handle_timeout(self.now);
        self.run();
    }

    fn pass(&mut self, time: Duration) {
        let until = self.now + time;
        while self.host.poll_timeout().is_some_and(|at| at <= until) {
            self.step();
        }
        self.now = until;
    }

    fn read(&mut self, start: u64) -> CommandId {
        let blocks = Blocks { start, count: 1 };
        let io = Io::Read { blocks, fua: false };
        self.host.submit(Access { nsid: 1, io }).unwrap()
    }

    /// Releases what ended, and gives what is complete.
    fn completions(&mut self) -> Vec<Completion> {
        let mut completions = Vec::new();
        while let Some(id) = self.host.poll_ended() {
            completions.extend(self.host.release(id, true));
        }
        completions
    }

    fn failure(&mut self) -> Failure {
        loop {
            match self.host.poll_event() {
                Some(Event::Ended(Some(failure)) | Event::Lost(failure)) => return failure,
                Some(_) => {}
                None => panic!("nothing failed"),
            }
        }
    }
}

fn statuses(completions: &[Completion]) -> Vec<Status> {
    completions.iter().map(|done| done.status).collect()
}
