//! Messages that are missing, counted by the length of the one that is found.

use super::*;

/// Messages of these lengths, from a multiple of 100 on, in packets of 100.
fn stream(lengths: &[usize]) -> Stream {
    let plaintexts: Vec<_> = lengths.iter().map(|len| vec![1; len - 12]).collect();
    Stream::new(SeqNum(u32::MAX - 450), &plaintexts)
}

/// What becomes of packets that come but for those that are lost; each that is offloaded is right.
fn receive(stream: &Stream, context: &mut Context, lost: &[usize]) -> Vec<Verdict> {
    let packets = (0..stream.wire.len() / 100).filter(|n| !lost.contains(n));
    packets
        .map(|n| stream.receive(context, 100 * n, 100 * n + 100))
        .collect()
}

#[test]
fn a_whole_message_confirms_how_many_are_missing_and_nobody_is_asked() {
    let stream = stream(&[300; 12]);
    let mut context = stream.counting_context(ArrivalOrder::Any);
    // Headers at 300, 600 and 900 are missing. That at 1200 is found, and that at 1500, up to which they are waited for; its message is whole.
    let verdicts = receive(&stream, &mut context, &[3, 4, 5, 6, 9]);
    assert_eq!(context.shared.counts.counted_headers, 1);
    assert_eq!(context.due_request(0), None);
    let offloaded: Vec<_> = verdicts
        .iter()
        .map(|it| *it == Verdict::Offloaded)
        .collect();
    let expected = [vec![true; 3], vec![false; 10], vec![true; 18]].concat();
    assert_eq!(offloaded, expected);
}

#[test]
fn a_message_that_is_not_whole_leaves_it_to_the_next_one() {
    let stream = stream(&[300; 12]);
    let mut context = stream.counting_context(ArrivalOrder::Any);
    let verdicts = receive(&stream, &mut context, &[3, 7]);
    assert_eq!(context.shared.counts.counted_headers, 1);
    let last = verdicts.iter().rposition(|it| *it != Verdict::Offloaded);
    // Packets 9 to 11 are of the message that confirms it.
    assert_eq!(last, Some(11 - 2));
}

#[test]
fn messages_of_another_length_are_asked_about() {
    let stream = stream(&[300, 400, 300, 300, 300]);
    let mut context = stream.counting_context(ArrivalOrder::Any);
    receive(&stream, &mut context, &[3]);
    assert_eq!(context.shared.counts.counted_headers, 0);
    assert_eq!(context.due_request(0), Some(stream.seq(700)));
}

#[test]
fn a_wrong_count_is_found_out_and_the_host_is_asked() {
    // One message of 600 is missing where two of 300 would fit.
    let stream = stream(&[[300, 600].as_slice(), &[300; 9]].concat());
    let mut context = stream.counting_context(ArrivalOrder::Any);
    let verdicts = receive(&stream, &mut context, &[3]);
    assert_eq!(context.shared.counts.counted_headers, 1);
    assert!(verdicts[3..].iter().all(|it| *it != Verdict::Offloaded));
    let guess = context.due_request(0).expect("it asks");
    let index = stream.index_at(guess).expect("a message begins there");
    assert_eq!(context.answer(guess, true, index), Answer::Resumed);
}
