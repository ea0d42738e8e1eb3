//! In steady state a connection allocates nothing, also while it repairs losses.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use tcp::{Config, Connection, Transmit};
use wire::SeqNum;
use wire::tcp::Header;

#[global_allocator]
static ALLOCATOR: testkit::CountingAllocator = testkit::CountingAllocator;

/// What is on the wire, and when it comes.
type Flight = VecDeque<(Instant, Header, u32, u16)>;

struct Transfer {
    now: Instant,
    sender: Connection,
    receiver: Connection,
    data: Flight,
    acks: Flight,
    rng: Pcg64Mcg,
    loss: f64,
}

const DELAY: Duration = Duration::from_micros(500);
const STEP: Duration = Duration::from_micros(20);

impl Transfer {
    fn new(loss: f64) -> Self {
        let now = Instant::now();
        let config = Config::default();
        let mut sender = Connection::connect(now, &config, 1, 2, SeqNum(5));
        let syn = sender.poll_transmit(now).expect("a SYN").header;
        let receiver = Connection::accept(now, &config, &syn, SeqNum(6));
        let room = || VecDeque::with_capacity(1 << 16);
        let rng = Pcg64Mcg::seed_from_u64(3);
        Self {
            now,
            sender,
            receiver,
            data: room(),
            acks: room(),
            rng,
            loss,
        }
    }

    /// Sends a Transmit as LRO would put it together behind a link that loses packets.
    fn put_on_wire(&mut self, transmit: &Transmit) {
        let mss = u32::from(transmit.mss);
        let (mut start, mut offset) = (0, 0);
        loop {
            let end = (offset + mss).min(transmit.payload);
            let lost = transmit.payload > 0 && self.rng.random_bool(self.loss);
            let last = end == transmit.payload;
            let kept = if lost { offset } else { end };
            if (lost || last) && (kept > start || transmit.payload == 0) {
                let mut header = transmit.header;
                header.seq += start;
                let packets = (kept - start).div_ceil(mss) as u16;
                self.data
                    .push_back((self.now + DELAY, header, kept - start, packets));
            }
            if lost {
                start = end;
            }
            offset = end;
            if last {
                return;
            }
        }
    }

    fn step(&mut self) {
        let space = self.sender.send_space();
        self.sender.queue(self.now, space);
        while let Some(transmit) = self.sender.poll_transmit(self.now) {
            self.put_on_wire(&transmit);
        }
        while let Some(transmit) = self.receiver.poll_transmit(self.now) {
            self.acks
                .push_back((self.now + DELAY, transmit.header, 0, 1));
        }
        self.now += STEP;
        while self.data.front().is_some_and(|flying| flying.0 <= self.now) {
            let (_, header, len, packets) = self.data.pop_front().expect("peeked");
            self.receiver
                .handle_segment(self.now, &header, len, packets);
            let unread = self.receiver.unread();
            self.receiver.consumed(self.now, unread);
        }
        while self.acks.front().is_some_and(|flying| flying.0 <= self.now) {
            let (_, header, len, packets) = self.acks.pop_front().expect("peeked");
            self.sender.handle_segment(self.now, &header, len, packets);
            while self.sender.poll_event().is_some() {}
        }
        for connection in [&mut self.sender, &mut self.receiver] {
            if connection.poll_timeout().is_some_and(|due| due <= self.now) {
                connection.handle_timeout(self.now);
            }
        }
    }
}

#[test]
fn steady_transfers_allocate_nothing() {
    for loss in [0.0, 0.001, 0.02] {
        let mut transfer = Transfer::new(loss);
        for _ in 0..150_000 {
            transfer.step();
        }
        let (allocations, sent) = (
            testkit::allocations(),
            transfer.sender.info(transfer.now).bytes_sent,
        );
        for _ in 0..50_000 {
            transfer.step();
        }
        let sent = transfer.sender.info(transfer.now).bytes_sent - sent;
        assert!(sent > 1 << 20, "{sent}");
        let new = testkit::allocations() - allocations;
        assert_eq!(new, 0, "at {loss} loss");
    }
}
