//! What share of data is placed, and covered by digests, under loss: the bar of Linux's test of receive offloads (blktests
//! nvme/056) is 90 % of the bytes, with at most 5 % of the packets asked about.

use l5p::Direction;
use l5p::nvme::{Engine, LatePdu, Role};
use wire::SeqNum;

use super::shares::{Path, SEGMENT};
use super::*;
use crate::context::receive::placing::Placer;
use crate::ring::{RegionId, Slice};
use testkit::fixtures::nvme;
use testkit::pdus::{Kind, PduStream, data};

const FIRST: SeqNum = SeqNum(0xffff_0000);

#[derive(Debug, Default, Clone, Copy)]
struct Shares {
    placed: f64,
    covered: f64,
    asked: f64,
}

fn run(order: ArrivalOrder, path: Path, pdu: u32, total: u32) -> Shares {
    let parameters = nvme(Role::Controller, true, true);
    let kinds: Vec<Kind> = (0..total / pdu)
        .map(|n| data((n % 32) as u16, 0, pdu))
        .collect();
    let stream = PduStream::new(&parameters, &kinds);
    let engine = Engine::new(&parameters, Direction::Receive);
    let mut recovery = Recovery::new(engine, Placer::new(32), FIRST, 0);
    let mut shared = Shared::<LatePdu, Placer>::new(order, 1);
    let buffer = [Slice {
        offset: 0,
        len: pdu,
        region: RegionId(0),
    }];
    let arrivals = path.arrivals(stream.len());
    let mut received = vec![false; arrivals.len()];
    let (mut in_order, mut placed, mut covered, mut asked) = (0, 0, 0, 0);
    let mut mapped = 0;
    let mut requests: Vec<SeqNum> = Vec::new();
    for (at, from) in arrivals {
        // Commands are asked for a flight and some PDUs ahead.
        let to = (from + SEGMENT).min(stream.len());
        let newest = stream.starts.partition_point(|start| *start < to) + 2;
        while mapped < newest.min(kinds.len()) {
            let tag = (mapped % 32) as u16;
            let table = &mut recovery.observer.table;
            let _ = table.unmap(tag);
            table.map(tag, &buffer).unwrap();
            mapped += 1;
        }
        let seq = FIRST + from as u32;
        let verdict = recovery.receive(&mut shared, seq, &stream.wire[from..to], None);
        placed += shared.noted.bytes();
        covered += usize::from(verdict == Verdict::Offloaded);
        received[from / SEGMENT] = true;
        while received.get(in_order) == Some(&true) {
            in_order += 1;
        }
        if let Some(guess) = recovery.due_request((at / 4) as u32) {
            recovery.request_sent((at / 4) as u32);
            asked += 1;
            requests.push(guess);
        }
        // The L5 software answers once the stream has been read to the guess.
        requests.retain(|guess| {
            let place = FIRST.distance_to(*guess) as usize;
            let passed = place + 24 <= in_order * SEGMENT;
            if passed {
                recovery.answer(&mut shared, *guess, stream.begins_at(place), 0);
            }
            !passed
        });
    }
    let share = |part: usize, whole: usize| 100.0 * part as f64 / whole as f64;
    Shares {
        placed: share(placed as usize, (kinds.len() as u32 * pdu) as usize),
        covered: share(covered, received.len()),
        asked: share(asked, received.len()),
    }
}

#[test]
fn with_little_loss_most_data_are_placed_and_few_headers_asked_about() {
    for (pdu, flight) in [
        (4 << 10, 40),
        (64 << 10, 40),
        (256 << 10, 40),
        (256 << 10, 200),
    ] {
        let path = Path {
            loss: 0.3,
            reorder: 0.0,
            flight,
        };
        for order in [ArrivalOrder::Sequence, ArrivalOrder::Any] {
            let shares = run(order, path, pdu, 12 << 20);
            assert!(
                shares.placed >= 90.0,
                "{order:?} {pdu} {flight}: {shares:?}"
            );
            assert!(shares.asked <= 5.0, "{order:?} {pdu} {flight}: {shares:?}");
        }
        let shares = run(ArrivalOrder::Any, path, pdu, 12 << 20);
        assert!(shares.covered >= 95.0, "{pdu} {flight}: {shares:?}");
    }
}

/// The table of shares; run with `--ignored --nocapture`.
#[test]
#[ignore = "prints a table"]
fn table() {
    for pdu in [4 << 10, 64 << 10, 256 << 10] {
        for order in [ArrivalOrder::Sequence, ArrivalOrder::Any] {
            for flight in [10, 40, 200] {
                for (loss, reorder) in [(0.3, 0.0), (1.0, 0.0), (5.0, 0.0), (0.0, 2.0)] {
                    let path = Path {
                        loss,
                        reorder,
                        flight,
                    };
                    let shares = run(order, path, pdu, 64 << 20);
                    println!(
                        "{:4} KiB {order:?} flight {flight:3} loss {loss}% reorder {reorder}%: placed {:5.1} covered {:5.1} asked {:5.2}",
                        pdu >> 10,
                        shares.placed,
                        shares.covered,
                        shares.asked
                    );
                }
            }
        }
    }
}
