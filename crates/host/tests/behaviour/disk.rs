//! What clients of disks have in common, whatever protocol they speak: tried against a server of the test's own, in virtual time.

use std::sync::Arc;
use std::time::Duration;

use nic::ring::{Region, RegionId};

use crate::pair::{CLIENT, Connected as _, Pair, SERVER, lossy, slice};
use host::SocketId;
use host::disk::{Access, Client, Event, Operation, RequestFailure};
use testkit::pattern;

/// Bytes of the disk.
pub const DISK: usize = 1 << 20;
pub const BLOCK: u32 = 512;

/// The other side: a server with one disk.
pub trait Server {
    /// Does what there is to do. Whether that was anything.
    fn poll(&mut self, pair: &mut Pair) -> bool;

    fn disk(&self) -> &[u8];
}

/// A disk's bytes, with zeroes in it.
pub fn disk_bytes() -> Vec<u8> {
    let mut disk = pattern(DISK);
    for block in disk.chunks_mut(16 << 10).step_by(3) {
        block.fill(0);
    }
    disk
}

type Done<C> = Result<(), RequestFailure<<C as Client>::Error>>;

/// A client and its server.
pub struct World<C: Client, S> {
    pub pair: Pair,
    pub server: S,
    pub client: C,
    pub memory: Arc<Region>,
    pub region: RegionId,
    pub events: Vec<Event<C::Failure>>,
    /// What became of each request, by its place.
    pub results: Vec<(usize, Done<C>)>,
}

impl<C: Client, S: Server> World<C, S> {
    pub fn new(mut pair: Pair, server: S, client: C) -> World<C, S> {
        let memory = Arc::new(Region::anonymous(DISK));
        let region = pair.register(CLIENT, Arc::clone(&memory), "memory");
        World {
            pair,
            server,
            client,
            memory,
            region,
            events: Vec::new(),
            results: Vec::new(),
        }
    }

    pub fn step(&mut self) -> bool {
        let progress = self.step_without_completions();
        while let Some(completion) = self.client.poll_completion() {
            self.results
                .push((completion.id.index(), completion.result));
        }
        progress
    }

    /// What is complete is not looked at.
    pub fn step_without_completions(&mut self) -> bool {
        let mut progress = self.pair.step();
        progress |= self.server.poll(&mut self.pair);
        let now = self.pair.now();
        for event in self.pair.take_events(CLIENT) {
            let stack = self.pair.stack(CLIENT);
            progress |= self.client.handle_event(now, stack, &event);
        }
        progress |= self.client.poll(now, self.pair.stack(CLIENT));
        self.events
            .extend(std::iter::from_fn(|| self.client.poll_event()));
        progress
    }

    pub fn run_until(&mut self, mut done: impl FnMut(&Self) -> bool) {
        let end = self.pair.now() + Duration::from_secs(600);
        while self.pair.now() < end {
            while self.step() {}
            if done(self) {
                return;
            }
            self.pair
                .advance_to(self.client.poll_timeout().unwrap_or(end));
        }
        let events: Vec<_> = self.events.iter().map(told).collect();
        panic!("{events:?}, {} results", self.results.len());
    }

    pub fn ready(&mut self) {
        self.run_until(|world| !world.events.is_empty());
        let told: Vec<_> = self.events.iter().map(told).collect();
        assert_eq!(told, ["ready"]);
    }

    /// Moves a range between the export and the same place of memory.
    pub fn submit(&mut self, operation: Operation, offset: u64, len: u32) -> usize {
        let memory = [slice(self.region, offset, len)];
        let access = Access {
            operation,
            offset,
            len,
        };
        let memory = if len > 0 { &memory[..] } else { &[] };
        self.client.submit(access, memory).unwrap().index()
    }

    pub fn bytes(&self, range: std::ops::Range<usize>) -> Vec<u8> {
        let mut bytes = vec![0; range.len()];
        assert!(self.memory.read(range.start as u64, &mut bytes));
        bytes
    }

    /// The server aborts the connection while requests are in flight: each of them ends.
    pub fn lose_everything(&mut self, socket: impl FnOnce(&S) -> SocketId) {
        for at in 0..5 {
            self.submit(Operation::Read, at * (64 << 10), 64 << 10);
            self.submit(Operation::Write, at * (64 << 10), 64 << 10);
        }
        for _ in 0..20 {
            self.step();
        }
        let now = self.pair.now();
        let socket = socket(&self.server);
        self.pair.stack(SERVER).abort(now, socket).unwrap();
        self.run_until(|world| {
            world.results.len() == 10 && matches!(world.events.last(), Some(Event::Ended(Some(_))))
        });
        let lost = |(_, result): &(usize, Done<C>)| matches!(result, Err(RequestFailure::Lost));
        assert!(self.results.iter().any(lost));
        self.pair.assert_no_sockets(CLIENT);
    }

    /// Reads and writes all ranges with these lengths, in blocks, `depth` of them at a time, on a wire that loses as much as `loss`.
    pub fn move_everything(&mut self, lens: &[u32], depth: usize, (loss, seed): (f64, u64)) {
        self.pair.decide(lossy(SERVER, loss, loss, seed));
        let all = ranges(lens);
        let end = all
            .last()
            .map_or(0, |(at, len)| *at as usize + *len as usize);
        for operation in [Operation::Read, Operation::Write] {
            let before = match operation {
                Operation::Read => vec![0xaa; DISK],
                _ => pattern(DISK).into_iter().rev().collect(),
            };
            assert!(self.memory.write(0, &before));
            let mut left = all.clone();
            let mut under_way = 0;
            while !left.is_empty() || under_way > 0 {
                while under_way < depth
                    && let Some((at, len)) = left.pop()
                {
                    self.submit(operation, at, len);
                    under_way += 1;
                }
                self.run_until(|world| !world.results.is_empty());
                for (_, result) in self.results.drain(..) {
                    assert!(result.is_ok(), "{}", result.unwrap_err());
                    under_way -= 1;
                }
            }
            let right = self.bytes(0..end) == self.server.disk()[..end];
            assert!(right, "{operation:?}");
        }
    }
}

/// Every range once, so that each byte of memory has one request.
fn ranges(lens: &[u32]) -> Vec<(u64, u32)> {
    let mut at = 0;
    let mut ranges = Vec::new();
    for len in lens.iter().cycle() {
        let len = len * BLOCK;
        if at + u64::from(len) > (DISK as u64) - u64::from(BLOCK) {
            return ranges;
        }
        ranges.push((at, len));
        at += u64::from(len);
    }
    ranges
}

fn told<F: std::error::Error>(event: &Event<F>) -> String {
    match event {
        Event::Ready => "ready".to_owned(),
        Event::Ended(None) => "ended".to_owned(),
        Event::Ended(Some(failure)) => failure.to_string(),
    }
}
