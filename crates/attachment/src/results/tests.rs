//! What the NIC has written is what the library reads, whatever either finds there.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use proptest::prelude::*;

use super::*;
use crate::question::Asking;

const TAG: RxContextTag = RxContextTag {
    epoch: 3,
    number: 17,
};

fn words() -> Box<[AtomicU64; RESULT_WORDS]> {
    Box::new([const { AtomicU64::new(0) }; RESULT_WORDS])
}

fn decrypted(results: Results<'_>, writer: &mut Writer, start: u32, len: u32) {
    let told = writer.decrypted(results, (SeqNum(start), len), TAG);
    told.expect("room");
}

fn either(results: Results<'_>, writer: &mut Writer, start: u32, len: u32) {
    let told = writer.either(results, (SeqNum(start), len), TAG);
    told.expect("room");
}

fn runs(results: Results<'_>) -> Vec<(u32, u32, Form)> {
    let runs = results.runs();
    runs.map(|(_, run)| (run.start.0, run.len, run.form))
        .collect()
}

#[test]
fn a_stream_in_one_form_is_one_run() {
    let words = words();
    let (results, mut writer) = (Results::new(&words), Writer::default());
    for at in 0..100 {
        let start = SeqNum(u32::MAX - 500) + at * 10;
        writer.decrypted(results, (start, 10), TAG).expect("room");
    }
    assert_eq!(runs(results), [(u32::MAX - 500, 1000, Form::Decrypted)]);
    let hint = results.hint(SeqNum(3)).expect("a run");
    let start = SeqNum(u32::MAX - 490);
    assert_eq!(results.covered(start, 990, hint), Some(TAG));
    assert_eq!(results.covered(start, 991, hint), None);
    assert_eq!(results.covered(start, 9, hint + 1), None);
    results.clear_before(SeqNum(498));
    assert_eq!(runs(results).len(), 1);
    results.clear_before(SeqNum(499));
    assert_eq!(runs(results).len(), 0);
}

#[test]
fn what_was_cleared_does_not_grow() {
    let words = words();
    let (results, mut writer) = (Results::new(&words), Writer::default());
    decrypted(results, &mut writer, 0, 10);
    results.clear_before(SeqNum(10));
    decrypted(results, &mut writer, 10, 5);
    assert_eq!(runs(results), [(10, 5, Form::Decrypted)]);
}

#[test]
fn contexts_have_runs_of_their_own() {
    let words = words();
    let (results, mut writer) = (Results::new(&words), Writer::default());
    let other = RxContextTag { epoch: 4, ..TAG };
    decrypted(results, &mut writer, 0, 10);
    writer
        .decrypted(results, (SeqNum(10), 5), other)
        .expect("room");
    let spans = results.spans(SeqNum(2), 12);
    let expected = [(8, What::Decrypted(TAG)), (4, What::Decrypted(other))];
    assert_eq!(spans, expected.map(|(len, what)| Span { len, what }));
}

#[test]
fn a_full_half_takes_no_more_and_says_so() {
    let words = words();
    let (results, mut writer) = (Results::new(&words), Writer::default());
    let most = (RUNS - RESERVED) as u32;
    for at in 0..most {
        decrypted(results, &mut writer, at * 20, 10);
    }
    assert!(writer.is_low());
    let next = (SeqNum(most * 20), 10);
    assert_eq!(writer.decrypted(results, next, TAG), Err(Full));
    // A run that goes on needs no word of its own.
    let last = (SeqNum(most * 20 - 10), 10);
    assert_eq!(writer.decrypted(results, last, TAG), Ok(()));
    for at in 0..RESERVED as u32 {
        either(results, &mut writer, at * 20, 10);
    }
    assert_eq!(writer.either(results, next, TAG), Err(Full));
    results.clear_before(SeqNum(45));
    assert_eq!(Writer::free(results), 4);
    assert_eq!(writer.either(results, next, TAG), Ok(()));
}

#[test]
fn a_run_longer_than_a_word_can_say_is_several() {
    let words = words();
    let (results, mut writer) = (Results::new(&words), Writer::default());
    decrypted(results, &mut writer, 7, 3 * MAX_RUN);
    let spans = results.spans(SeqNum(7), 3 * MAX_RUN as usize);
    assert_eq!(spans.len(), 1);
    assert_eq!(spans[0].what, What::Decrypted(TAG));
}

#[test]
fn packets_in_both_forms_are_cut_where_they_begin_and_end() {
    let words = words();
    let (results, mut writer) = (Results::new(&words), Writer::default());
    decrypted(results, &mut writer, 0, 100);
    either(results, &mut writer, 20, 20);
    either(results, &mut writer, 40, 20);
    let (decrypted, either) = (What::Decrypted(TAG), What::Either(TAG));
    let expected = [
        (15, decrypted),
        (20, either),
        (20, either),
        (40, decrypted),
        (5, What::Ciphertext),
    ];
    let spans = results.spans(SeqNum(5), 100);
    assert_eq!(spans, expected.map(|(len, what)| Span { len, what }));
    assert_eq!(results.eithers(), 2);
}

#[test]
fn what_a_dead_nic_has_not_seen_acknowledged_may_be_either_packet_by_packet() {
    let words = words();
    let (results, mut writer) = (Results::new(&words), Writer::default());
    for (start, len) in [(0, 20), (20, 40), (60, 40), (110, 40)] {
        decrypted(results, &mut writer, start, len);
    }
    assert_eq!(runs(results).len(), 2);
    writer.acknowledge(results, SeqNum(30));
    results.doubt();
    let (decrypted, either) = (What::Decrypted(TAG), What::Either(TAG));
    let expected = [
        (20, decrypted),
        (30, either),
        (40, either),
        (10, What::Ciphertext),
        (40, either),
        (10, What::Ciphertext),
    ];
    let spans = results.spans(SeqNum(10), 150);
    assert_eq!(spans, expected.map(|(len, what)| Span { len, what }));
    assert_eq!(results.eithers(), 3);
    // It does so once.
    results.doubt();
    assert_eq!(results.eithers(), 3);
}

#[test]
fn a_half_without_room_is_doubted_too() {
    let words = words();
    let (results, mut writer) = (Results::new(&words), Writer::default());
    for at in 0..(RUNS - RESERVED) as u32 {
        decrypted(results, &mut writer, at * 20, 10);
    }
    for at in 0..RESERVED as u32 {
        either(results, &mut writer, at * 20, 10);
    }
    writer.acknowledge(results, SeqNum(0));
    results.doubt();
    for at in 0..(RUNS - RESERVED) as u32 {
        let what = What::Either(TAG);
        let spans = results.spans(SeqNum(at * 20), 10);
        assert_eq!(spans, [Span { len: 10, what }], "packet {at}");
    }
}

/// A NIC names packets of ten bytes, every seventh of which goes up as it came, and does something `more` behind each. Meanwhile the library looks
/// `before` it asks what a packet is, which `is_told` then.
fn race(
    all: u32,
    more: impl Fn(&Writer, Results<'_>, u32) + Send,
    before: impl Fn(Results<'_>),
    is_told: impl Fn(&[Span], u32) -> bool,
) {
    let (words, sent, stop) = (words(), AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let (words, sent, stop) = (&words, &sent, &stop);
        scope.spawn(move || {
            let (results, mut writer) = (Results::new(words), Writer::default());
            writer.acknowledge(results, SeqNum(0));
            for packet in 0..all {
                let bytes = (SeqNum(packet * 10), 10);
                while packet % 7 != 0 && writer.decrypted(results, bytes, TAG).is_err() {
                    if stop.load(Ordering::Relaxed) {
                        return;
                    }
                    std::thread::yield_now();
                }
                sent.store(u64::from(packet + 1), Ordering::Release);
                more(&writer, results, packet);
            }
        });
        let results = Results::new(words);
        let mut read = 0;
        while read < all {
            let until = sent.load(Ordering::Acquire) as u32;
            before(results);
            for packet in read..until {
                let spans = results.spans(SeqNum(packet * 10), 10);
                stop.store(!is_told(&spans, packet), Ordering::Relaxed);
                assert!(is_told(&spans, packet), "packet {packet}: {spans:?}");
            }
            results.clear_before(SeqNum(until * 10));
            read = until;
        }
    });
}

/// A connection to the NIC may end without the NIC: then the library doubts what that goes on to write.
#[test]
fn nothing_is_lost_when_a_nic_is_doubted_that_is_there() {
    let all = if cfg!(miri) { 150 } else { 50_000 };
    let acknowledge = |writer: &Writer, results: Results<'_>, packet: u32| {
        if packet.is_multiple_of(40) {
            writer.acknowledge(results, SeqNum(packet * 10));
        }
    };
    let is_told = |spans: &[Span], packet: u32| {
        let mut spans = spans.iter();
        spans.all(|span| packet.is_multiple_of(7) == (span.what == What::Ciphertext))
    };
    race(all, acknowledge, |results| results.doubt(), is_told);
}

#[test]
fn contexts_are_marked_by_the_announced_epoch_and_a_number_of_their_own() {
    let words = words();
    let results = Results::new(&words);
    results.announce_epoch(18);
    let epoch = results.announced_epoch();
    results.announce_epoch(19);
    let tags = [results.next_tag(epoch), results.next_tag(epoch)];
    assert_eq!(tags, [0, 1].map(|number| RxContextTag { epoch: 2, number }));
    assert_eq!(
        tags[1],
        RxContextTag {
            epoch: 2,
            number: 1
        }
    );
}

#[test]
fn a_question_is_answered_once_and_the_latest_only() {
    let words = words();
    let (questions, mut nic) = (Results::new(&words).questions(), Asking::default());
    assert_eq!(questions.pending(), None);
    nic.ask(questions, SeqNum(5));
    let first = questions.pending().expect("a question");
    nic.ask(questions, SeqNum(9));
    let second = questions.pending().expect("a question");
    questions.answer(first.serial, Some(1));
    assert_eq!(nic.poll_answer(questions), None);
    questions.answer(second.serial, Some(77));
    assert_eq!(nic.poll_answer(questions), Some((SeqNum(9), Some(77))));
    assert_eq!(nic.poll_answer(questions), None);
    // Another NIC's questions are not the ones answered before.
    let mut next = Asking::default();
    next.ask(questions, SeqNum(9));
    assert_eq!(next.poll_answer(questions), None);
}

#[test]
fn runs_are_there_before_the_bytes_they_name() {
    let all = if cfg!(miri) { 200 } else { 100_000 };
    let is_told = |spans: &[Span], packet: u32| {
        let what = match packet % 7 {
            0 => What::Ciphertext,
            _ => What::Decrypted(TAG),
        };
        *spans == [Span { len: 10, what }]
    };
    race(all, |_, _, _| {}, |_| {}, is_told);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 4 } else { 256 }))]

    /// Whatever the library writes there, the NIC goes on, and uses the words that it may use.
    #[test]
    fn the_nic_bears_any_contents(
        contents in prop::collection::vec((0..RESULT_WORDS, any::<u64>()), 0..300),
        steps in prop::collection::vec((any::<u32>(), 1u32..5_000_000, 0u8..4), 1..40),
    ) {
        let words = words();
        let (results, mut writer) = (Results::new(&words), Writer::default());
        let mut asking = Asking::default();
        let mut contents = contents.into_iter();
        for (start, len, step) in steps {
            for (at, word) in contents.by_ref().take(8) {
                words[at].store(word, Ordering::Relaxed);
            }
            match step {
                0 => drop(writer.decrypted(results, (SeqNum(start), len), TAG)),
                1 => drop(writer.either(results, (SeqNum(start), len), TAG)),
                2 => asking.ask(results.questions(), SeqNum(start)),
                _ => drop(asking.poll_answer(results.questions())),
            }
        }
    }

    /// Whatever the NIC writes there, the library gets spans of the length that it asked for.
    #[test]
    fn the_library_bears_any_contents(
        contents in prop::collection::vec(any::<u64>(), RESULT_WORDS),
        (start, len) in (any::<u32>(), 1usize..20_000),
        near in any::<bool>(),
    ) {
        let words = words();
        for (at, word) in contents.into_iter().enumerate() {
            let near_start = u64::from(start.wrapping_add(word as u32 % 30_000).wrapping_sub(10_000));
            let word = if near { word >> 32 << 32 & !(0x1f << 48) | near_start } else { word };
            words[at].store(word, Ordering::Relaxed);
        }
        let results = Results::new(&words);
        let spans = results.spans(SeqNum(start), len);
        results.doubt();
        prop_assert_eq!(spans.iter().map(|span| span.len).sum::<usize>(), len);
        prop_assert!(spans.iter().all(|span| span.len > 0));
        results.clear_before(SeqNum(start));
        let _ = (results.covered(SeqNum(start), len, 5000), results.hint(SeqNum(start)), results.questions().pending(), results.acknowledged());
    }

    /// Packets in any order, each in a form: every byte is told as it went up.
    #[test]
    fn every_byte_is_told_as_it_went_up(
        packets in prop::collection::vec((0u32..40, 1u32..6, any::<bool>()), 1..60),
        base in any::<u32>(),
    ) {
        let words = words();
        let (results, mut writer) = (Results::new(&words), Writer::default());
        let mut model = [None; 64];
        for (start, len, decrypted) in packets {
            let range = start as usize..(start + len) as usize;
            if !decrypted || model[range.clone()].iter().any(Option::is_some) {
                continue;
            }
            model[range].fill(Some(TAG));
            writer.decrypted(results, (SeqNum(base) + start, len), TAG).expect("room");
        }
        let mut told = Vec::new();
        for span in results.spans(SeqNum(base), 64) {
            let tag = match span.what {
                What::Decrypted(tag) => Some(tag),
                _ => None,
            };
            told.extend(std::iter::repeat_n(tag, span.len));
        }
        prop_assert_eq!(told, model.to_vec());
    }
}
