//! Rings, step by step: by both sides, and by one that writes indices as it likes.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use testkit::written::shorten;

use super::super::super::block::Block;
use super::super::super::spsc::{Consumer, Producer, Ring, ring_words};
use super::compare;

const WORDS: usize = 3;
/// Where a ring lies, which is not at the beginning.
const AT: usize = 16;
const TAIL: usize = AT;
const HEAD: usize = AT + 16;

struct Both {
    producer: Producer<WORDS>,
    consumer: Consumer<WORDS>,
    block: Arc<Block>,
    written: u64,
}

impl Both {
    fn new(capacity: u32, start: u64) -> Both {
        let words = AT + ring_words::<WORDS>(capacity);
        let block = Arc::new(Block::allocate(words * 8));
        block.words()[TAIL].store(start, Ordering::Relaxed);
        block.words()[HEAD].store(start, Ordering::Relaxed);
        let ring = || Ring::new(Arc::clone(&block), AT, capacity);
        Both {
            producer: Producer::resume(ring()).expect("an empty ring"),
            consumer: Consumer::resume(ring()).expect("an empty ring"),
            block,
            written: 0,
        }
    }

    /// One step, and what is seen of it.
    fn step(&mut self, kind: u32, number: u32) -> String {
        let Both {
            producer,
            consumer,
            block,
            written,
        } = self;
        match kind {
            0 | 1 => {
                let free = producer.free(number);
                for _ in 0..number.min(free) {
                    *written += 1;
                    let words = [*written, *written << 8, !*written];
                    producer.write(&words[..1 + number as usize % WORDS]);
                }
                format!("write {number} of {free}, next {}", producer.next())
            }
            2 => format!("publish {}", producer.publish()),
            3 => {
                let available = consumer.available();
                let mut words = [[0; WORDS]; 2];
                consumer.read(number % 4, &mut words[0][..2]);
                consumer.read_from(1, &mut words[1]);
                let known = consumer.known();
                format!("see {available} {known} {words:x?}")
            }
            4 | 5 => {
                consumer.advance(number);
                format!("take {number}, next {}", consumer.next())
            }
            6 => {
                consumer.publish();
                format!("give back, {} {}", consumer.freed(), producer.completed())
            }
            7 => {
                let before = consumer.next().saturating_sub(number.into());
                consumer.publish_before(before + 1);
                let freed = consumer.freed();
                format!("give back before {}, {freed}", before + 1)
            }
            8 => {
                let slept = consumer.prepare_sleep();
                let woken = [producer.take_wakeup(), producer.take_wakeup()];
                format!("sleep {slept} {woken:?}")
            }
            9 => {
                consumer.prepare_sleep();
                consumer.cancel_sleep();
                format!("sleep no more {}", producer.take_wakeup())
            }
            10 => {
                consumer.erase(1..2 + number as usize % 2);
                format!("now {}", consumer.available_now())
            }
            _ => {
                let (word, name) = [(TAIL, "tail"), (HEAD, "head")][number as usize % 2];
                let word = &block.words()[word];
                let old = word.load(Ordering::Relaxed);
                let wrong = match kind {
                    11 => old.wrapping_sub(1 + u64::from(number)),
                    _ => old.wrapping_add(2 + u64::from(number)),
                };
                word.store(wrong, Ordering::Relaxed);
                let seen = (consumer.available_now(), producer.completed());
                word.store(old, Ordering::Relaxed);
                let again = (consumer.available_now(), producer.completed());
                format!("{name} {wrong}: {seen:?} {again:?}")
            }
        }
    }
}

/// Steps by a seed, on rings that begin at these counts.
fn run(capacity: u32, start: u64, kinds: u32, seed: u64) -> Vec<String> {
    let mut both = Both::new(capacity, start);
    let mut rng = Pcg64Mcg::seed_from_u64(seed);
    let lines = (0..1500).map(|_| {
        let (kind, number) = (rng.random_range(0..kinds), rng.random_range(0..6));
        both.step(kind, number)
    });
    let mut lines = shorten(lines.collect(), 30);
    lines.insert(0, format!("{capacity} slots from {start} on"));
    lines
}

#[test]
#[cfg_attr(miri, ignore = "it reads a file")]
fn rings_go_on_as_written_down() {
    let mut lines = run(4, 0, 11, 1);
    lines.extend(run(8, (1 << 32) - 20, 11, 2));
    lines.extend(run(1, 1 << 62, 11, 3));
    compare("rings", &lines);
}

/// The other side writes indices that can't be.
#[test]
#[cfg_attr(miri, ignore = "it reads a file")]
fn impossible_indices_do_as_written_down() {
    let mut lines = run(4, 10, 13, 4);
    lines.extend(run(8, (1 << 32) - 20, 13, 5));
    compare("impossible_indices", &lines);
}

/// Both sides end, and begin again.
#[test]
#[cfg_attr(miri, ignore = "it reads a file")]
fn rings_that_begin_anew_go_on_as_written_down() {
    let mut lines = Vec::new();
    let mut rng = Pcg64Mcg::seed_from_u64(6);
    for life in 0..20 {
        let mut both = Both::new(4, 5);
        for _ in 0..12 {
            both.step(rng.random_range(0..8), rng.random_range(0..4));
        }
        match life % 2 {
            0 => both.producer.clear(),
            _ => both.consumer.clear(),
        }
        let words = |at: usize| both.block.words()[at].load(Ordering::Relaxed);
        let (tail, head) = (words(TAIL), words(HEAD));
        let ring = Ring::<WORDS>::new(Arc::clone(&both.block), AT, 4);
        let resumed = Producer::resume(ring.clone()).map(|it| it.next());
        let next = (both.producer.next(), both.producer.free(4));
        let theirs = (both.consumer.next(), both.consumer.available_now());
        lines.push(format!("{tail} {head} {resumed:?} {next:?} {theirs:?}"));
    }
    let sizes: Vec<usize> = [1, 2, 4, 64, 1024].map(ring_words::<WORDS>).to_vec();
    lines.push(format!("{sizes:?}"));
    compare("renewed_rings", &lines);
}
