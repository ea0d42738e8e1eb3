use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use super::super::block::Block;
use super::super::spsc::{Consumer, Producer, Ring, ring_words};

const WORDS: usize = 3;

fn ring(capacity: u32) -> (Producer<WORDS>, Consumer<WORDS>, Arc<Block>) {
    let block = Arc::new(Block::allocate(ring_words::<WORDS>(capacity) * 8));
    let producer = Producer::new(Ring::new(Arc::clone(&block), 0, capacity));
    let consumer = Consumer::new(Ring::new(Arc::clone(&block), 0, capacity));
    (producer, consumer, block)
}

fn next(consumer: &mut Consumer<WORDS>) -> Option<[u64; WORDS]> {
    (consumer.available() > 0).then(|| {
        let mut words = [0; WORDS];
        consumer.read(0, &mut words);
        consumer.advance(1);
        words
    })
}

#[test]
fn nothing_is_seen_before_it_is_published() {
    let (mut producer, mut consumer, _) = ring(4);
    producer.write(&[1, 2, 3]);
    assert_eq!(next(&mut consumer), None);
    assert!(producer.publish());
    assert!(!producer.publish(), "there was nothing more");
    assert_eq!(next(&mut consumer), Some([1, 2, 3]));
    assert_eq!(next(&mut consumer), None);
}

#[test]
fn slots_come_back_when_the_consumer_publishes() {
    let (mut producer, mut consumer, _) = ring(2);
    for n in 0..2 {
        producer.write(&[n; WORDS]);
    }
    producer.publish();
    assert_eq!(producer.free(1), 0);
    next(&mut consumer);
    assert_eq!((producer.free(1), producer.completed()), (0, 0));
    consumer.publish();
    assert_eq!((producer.free(1), producer.completed()), (1, 1));
}

#[test]
fn two_threads_pass_everything_in_order() {
    let total = if cfg!(miri) { 200 } else { 200_000 };
    let (mut producer, mut consumer, _) = ring(8);
    let sender = thread::spawn(move || {
        let mut sent = 0u64;
        while sent < total {
            let batch = u64::from(producer.free(1)).min(total - sent).min(3);
            for n in sent..sent + batch {
                producer.write(&[n, !n, n * 7]);
            }
            sent += batch;
            producer.publish();
            if batch == 0 {
                thread::yield_now();
            }
        }
    });
    let mut expected = 0;
    while expected < total {
        match next(&mut consumer) {
            Some(words) => {
                assert_eq!(words, [expected, !expected, expected * 7]);
                expected += 1;
                consumer.publish();
            }
            None => thread::yield_now(),
        }
    }
    sender.join().unwrap();
}

/// The consumer sleeps whenever it may, and only a wake-up ends its sleep: a lost one would hang.
#[test]
fn no_wakeup_is_lost() {
    let total = if cfg!(miri) { 60 } else { 20_000 };
    let (mut producer, mut consumer, _) = ring(4);
    let doorbell = Arc::new(AtomicBool::new(false));
    let receiver = {
        let doorbell = Arc::clone(&doorbell);
        thread::spawn(move || {
            let mut received = 0u64;
            while received < total {
                while let Some(words) = next(&mut consumer) {
                    assert_eq!(words[0], received);
                    received += 1;
                }
                consumer.publish();
                if received < total && consumer.prepare_sleep() {
                    while !doorbell.swap(false, Ordering::Acquire) {
                        thread::park();
                    }
                }
                consumer.cancel_sleep();
            }
        })
    };
    let mut sent = 0;
    while sent < total {
        if producer.free(1) == 0 {
            thread::yield_now();
            continue;
        }
        producer.write(&[sent; WORDS]);
        sent += 1;
        producer.publish();
        if producer.take_wakeup() {
            doorbell.store(true, Ordering::Release);
            receiver.thread().unpark();
        }
    }
    receiver.join().unwrap();
}

#[test]
fn an_impossible_index_is_not_believed() {
    let (mut producer, mut consumer, block) = ring(4);
    let (tail, head) = (&block.words()[0], &block.words()[16]);

    tail.store(5, Ordering::Relaxed);
    assert_eq!(consumer.available(), 0, "more than the ring holds");
    tail.store(u64::MAX, Ordering::Relaxed);
    assert_eq!(consumer.available(), 0);
    tail.store(3, Ordering::Relaxed);
    assert_eq!(consumer.available(), 3, "a possible one is");
    next(&mut consumer);
    tail.store(0, Ordering::Relaxed);
    assert_eq!(consumer.available_now(), 2, "it never goes back");

    producer.write(&[0; WORDS]);
    producer.publish();
    for impossible in [2, 1000, u64::MAX] {
        head.store(impossible, Ordering::Relaxed);
        assert_eq!((producer.completed(), producer.free(4)), (0, 3));
    }
    head.store(1, Ordering::Relaxed);
    assert_eq!((producer.completed(), producer.free(4)), (1, 4));
}
