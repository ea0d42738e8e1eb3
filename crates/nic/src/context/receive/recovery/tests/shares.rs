//! What share of records stays offloaded under loss and reordering.

use super::*;

/// Records of 16 KiB in segments of 1,448 bytes.
const RECORD: usize = 16 << 10;
pub(super) const SEGMENT: usize = 1448;

/// A generator of repeatable pseudo-random numbers (xorshift64*).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn chance(&mut self, percent: f64) -> bool {
        ((self.next() >> 11) as f64) < percent / 100.0 * (1u64 << 53) as f64
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Path {
    pub(super) loss: f64,
    pub(super) reorder: f64,
    /// Packets in flight: a retransmission comes that much later, and so does an answer to a resync request.
    pub(super) flight: usize,
}

impl Path {
    /// When packets of a stream of so many bytes come, and their first bytes, in this order. Times are in quarters of packets; what is lost
    /// comes again a flight later, if it is not lost again.
    pub(super) fn arrivals(self, len: usize) -> Vec<(usize, usize)> {
        let mut random = Random(0x1234_5678_9abc_def1);
        let arrival = |(n, from): (usize, usize)| {
            let mut at = 4 * n;
            while random.chance(self.loss) {
                at += 4 * (self.flight + 3);
            }
            if random.chance(self.reorder) {
                at += 4 * (1 + random.next() as usize % self.flight.min(8)) + 2;
            }
            (at, from)
        };
        let mut arrivals: Vec<_> = (0..len).step_by(SEGMENT).enumerate().map(arrival).collect();
        arrivals.sort_unstable();
        arrivals
    }
}

#[derive(Debug, Default, Clone, Copy)]
struct Shares {
    full: f64,
    partial: f64,
    none: f64,
}

fn stream_of(records: usize) -> Stream {
    Stream::new(SeqNum(0xffff_0000), &vec![vec![0x55; RECORD]; records])
}

fn run(order: ArrivalOrder, path: Path, records: usize) -> Shares {
    let stream = stream_of(records);
    let context = stream.context(order);
    run_in(&stream, context, path)
}

fn run_in(stream: &Stream, mut context: Context, path: Path) -> Shares {
    let records = stream.starts.len() - 1;
    let arrivals = path.arrivals(stream.wire.len());

    let mut offloaded = vec![false; stream.wire.len().div_ceil(SEGMENT)];
    let mut received = vec![false; offloaded.len()];
    let mut in_order = 0;
    let mut requests: Vec<SeqNum> = Vec::new();
    for (at, from) in arrivals {
        let to = (from + SEGMENT).min(stream.wire.len());
        offloaded[from / SEGMENT] = stream.receive(&mut context, from, to) == Verdict::Offloaded;
        received[from / SEGMENT] = true;
        while received.get(in_order) == Some(&true) {
            in_order += 1;
        }
        if let Some(guess) = context.due_request((at / 4) as u32) {
            context.request_sent((at / 4) as u32);
            requests.push(guess);
        }
        // The L5 software answers once the stream has been read to the guess.
        requests.retain(|guess| {
            let passed =
                stream.first.distance_to(*guess) as usize + toy::HEADER_LEN <= in_order * SEGMENT;
            if passed {
                let index = stream.index_at(*guess);
                context.answer(*guess, index.is_some(), index.unwrap_or(0));
            }
            !passed
        });
    }

    let mut shares = Shares::default();
    for bounds in stream.starts.windows(2) {
        let packets = &offloaded[bounds[0] / SEGMENT..=(bounds[1] - 1) / SEGMENT];
        let flagged = packets.iter().filter(|packet| **packet).count();
        let share = match flagged {
            0 => &mut shares.none,
            flagged if flagged == packets.len() => &mut shares.full,
            _ => &mut shares.partial,
        };
        *share += 100.0 / records as f64;
    }
    shares
}

#[test]
fn five_percent_loss_leaves_more_than_half_of_the_records_fully_offloaded() {
    for flight in [10, 40] {
        let path = Path {
            loss: 5.0,
            reorder: 0.0,
            flight,
        };
        let shares = run(ArrivalOrder::Any, path, 400);
        assert!(shares.full > 50.0, "{flight} in flight: {shares:?}");
    }
}

/// The L5 software comes to a header a round trip after it was asked, in which the next one is lost.
#[test]
fn missing_records_of_one_length_are_counted_where_the_answer_comes_too_late() {
    let path = Path {
        loss: 5.0,
        reorder: 0.0,
        flight: 200,
    };
    let stream = stream_of(400);
    let asking = run_in(&stream, stream.context(ArrivalOrder::Any), path);
    let counting = run_in(&stream, stream.counting_context(ArrivalOrder::Any), path);
    assert!(counting.full > 60.0, "{counting:?}");
    assert!(counting.full > asking.full, "{asking:?}");
}

#[test]
fn two_percent_reordering_leaves_a_quarter_of_the_records_fully_offloaded() {
    for flight in [10, 40] {
        let path = Path {
            loss: 0.0,
            reorder: 2.0,
            flight,
        };
        let shares = run(ArrivalOrder::Any, path, 400);
        assert!(shares.full >= 24.0, "{flight} in flight: {shares:?}");
    }
}

/// The table of shares; run with `--ignored --nocapture`.
#[test]
#[ignore = "prints a table"]
fn table() {
    for order in [ArrivalOrder::Sequence, ArrivalOrder::Any] {
        for flight in [10, 40, 200] {
            for percent in [1.0, 2.0, 3.0, 4.0, 5.0] {
                for (what, loss, reorder) in [("loss", percent, 0.0), ("reorder", 0.0, percent)] {
                    let path = Path {
                        loss,
                        reorder,
                        flight,
                    };
                    let stream = stream_of(1500);
                    for (counts, context) in [
                        ("asks", stream.context(order)),
                        ("counts", stream.counting_context(order)),
                    ] {
                        let shares = run_in(&stream, context, path);
                        println!(
                            "{order:?} {counts:6} flight {flight:3} {what:7} {percent}%: full {:5.1} partial {:5.1} none {:5.1}",
                            shares.full, shares.partial, shares.none
                        );
                    }
                }
            }
        }
    }
}
