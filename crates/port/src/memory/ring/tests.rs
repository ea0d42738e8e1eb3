use super::*;

const META: Meta = Meta {
    gso_size: 1448,
    needs_checksum: Some((34, 16)),
    checksum_valid: true,
};

fn push(producer: &mut Producer, frame: &[u8], meta: Meta) -> bool {
    let Some(slot) = producer.reserve() else {
        return false;
    };
    slot[..frame.len()].copy_from_slice(frame);
    producer.commit(frame.len(), meta);
    true
}

fn pop(consumer: &mut Consumer) -> Option<(Vec<u8>, Meta)> {
    let popped = consumer.front().map(|(frame, meta)| (frame.to_vec(), meta));
    if popped.is_some() {
        consumer.pop();
    }
    popped
}

#[test]
fn frames_come_out_as_they_went_in() {
    let (mut producer, mut consumer) = ring(0, 100);
    assert!(pop(&mut consumer).is_none());
    assert!(push(&mut producer, &[7; 100], META));
    assert!(push(&mut producer, &[], Meta::default()));
    assert!(pop(&mut consumer).is_none(), "nothing has been published");
    producer.publish();
    assert_eq!(pop(&mut consumer), Some((vec![7; 100], META)));
    assert_eq!(pop(&mut consumer), Some((vec![], Meta::default())));
    assert!(pop(&mut consumer).is_none());
}

#[test]
fn a_full_ring_takes_nothing_until_room_is_released() {
    let (mut producer, mut consumer) = ring(0, 100);
    let mut pushed = 0;
    while push(&mut producer, &[pushed; 100], META) {
        pushed += 1;
    }
    producer.publish();
    assert!(pushed >= 4);
    for expected in 0..pushed {
        assert_eq!(pop(&mut consumer), Some((vec![expected; 100], META)));
    }
    consumer.release();
    assert!(push(&mut producer, &[9; 100], META));
}

#[test]
fn laps_of_frames_of_all_lengths_stay_in_order() {
    let (mut producer, mut consumer) = ring(0, 200);
    let (mut sent, mut received) = (0usize, 0usize);
    let frame = |n: usize| vec![n as u8; n * 37 % 201];
    while received < 500 {
        while sent < received + 1 + received % 7 && push(&mut producer, &frame(sent), META) {
            sent += 1;
        }
        producer.publish();
        while let Some((bytes, _)) = pop(&mut consumer) {
            assert_eq!(bytes, frame(received));
            received += 1;
        }
        consumer.release();
    }
}

#[test]
fn a_consumer_that_sleeps_is_woken_once() {
    let (mut producer, mut consumer) = ring(0, 100);
    assert!(consumer.prepare_sleep());
    push(&mut producer, &[1], META);
    assert!(producer.publish());
    push(&mut producer, &[2], META);
    assert!(!producer.publish());
    assert!(!consumer.prepare_sleep(), "frames are there");
    consumer.cancel_sleep();
    push(&mut producer, &[3], META);
    assert!(!producer.publish(), "it is awake");
}

#[test]
fn a_producer_sleeps_only_where_there_is_no_room() {
    let (mut producer, mut consumer) = ring(0, 100);
    assert!(producer.prepare_sleep());
    producer.publish();
    assert!(!consumer.release(), "it does not wait for room");
    while push(&mut producer, &[0; 100], META) {}
    producer.publish();
    assert!(producer.prepare_sleep());
    while pop(&mut consumer).is_some() {}
    assert!(consumer.release());
    assert!(!producer.prepare_sleep(), "there is room");
}

#[test]
fn a_producer_without_a_consumer_never_blocks() {
    let (mut producer, mut consumer) = ring(0, 100);
    consumer.close();
    drop(consumer);
    for _ in 0..100 {
        assert!(push(&mut producer, &[0; 100], META));
    }
    assert!(!producer.is_connected());
}

#[test]
fn two_threads_pass_frames_without_loss() {
    const FRAMES: u32 = if cfg!(miri) { 60 } else { 100_000 };
    let (mut producer, mut consumer) = ring(0, 300);
    let sender = std::thread::spawn(move || {
        for n in 0..FRAMES {
            let frame = vec![n as u8; 4 + n as usize % 290];
            while !push(&mut producer, &frame, META) {
                producer.publish();
                std::thread::yield_now();
            }
        }
        producer.publish();
    });
    for n in 0..FRAMES {
        let frame = loop {
            if let Some((frame, meta)) = pop(&mut consumer) {
                assert_eq!(meta, META);
                break frame;
            }
            consumer.release();
            std::thread::yield_now();
        };
        assert_eq!(frame, vec![n as u8; 4 + n as usize % 290]);
    }
    sender.join().expect("the sender ends well");
}
