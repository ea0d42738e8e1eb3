use super::*;
use crate::context::receive::toy::Toy;

#[test]
fn a_pattern_is_found_however_it_is_cut() {
    let layer5 = Toy::new(1, false);
    let mut bytes = [0xc5; 40];
    bytes[20..24].copy_from_slice(&[0xc5, 0x3a, 0, 99]);
    for first in 1..39 {
        for second in first..40 {
            let mut scanner = Scanner::default();
            let mut guess = None;
            let mut at = 0;
            for part in [&bytes[..first], &bytes[first..second], &bytes[second..]] {
                if guess.is_none() {
                    guess = scanner
                        .find(&layer5, SeqNum(100 + at), part)
                        .map(|found| found.0.guess());
                }
                at += part.len() as u32;
            }
            assert_eq!(guess, Some(SeqNum(120)), "cut at {first} and {second}");
        }
    }
}

#[test]
fn a_tracker_follows_headers_cut_into_single_bytes() {
    let layer5 = Toy::new(1, false);
    let message = [0xc5, 0x3a, 0, 15, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11];
    let stream = message.repeat(4);
    let mut tracker = Tracker::new(SeqNum(u32::MAX), Carry::default());
    for (at, byte) in stream.iter().enumerate() {
        let seq = SeqNum(u32::MAX) + at as u32;
        tracker
            .follow(&layer5, seq, std::slice::from_ref(byte), true)
            .unwrap();
    }
    assert_eq!(tracker.messages(), 4);
    assert_eq!(tracker.next(), SeqNum(u32::MAX) + 60);
    assert!(tracker.partial().is_empty());
}

#[test]
fn a_gap_inside_a_message_keeps_the_track_and_one_over_a_header_loses_it() {
    let layer5 = Toy::new(1, false);
    let message = [0xc5, 0x3a, 0, 15, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11];
    let mut tracker = Tracker::new(SeqNum(0), Carry::default());
    tracker
        .follow(&layer5, SeqNum(0), &message[..6], true)
        .unwrap();
    tracker
        .follow(&layer5, SeqNum(10), &message[10..], false)
        .unwrap();
    assert_eq!(tracker.messages(), 1);
    let lost = tracker.follow(&layer5, SeqNum(16), &message[1..], false);
    assert_eq!(lost, Err(Lost { search_from: 0 }));
}
