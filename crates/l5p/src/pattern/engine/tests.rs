use super::*;
use crate::pattern::{TABLES, WINDOW};
use crate::{Integrity, Layer5, Walker};

fn engine(text: &str, direction: Direction) -> Engine {
    let patterns = Patterns::parse(text, TABLES).expect("good patterns");
    Engine::new(Arc::new(patterns), direction)
}

fn notes(engine: &mut Engine) -> Vec<Note> {
    std::iter::from_fn(|| engine.take_note()).collect()
}

/// Codes and places.
fn places(engine: &mut Engine) -> Vec<(u32, u32)> {
    let notes = notes(engine);
    notes.iter().map(|note| (note.code, note.at)).collect()
}

/// What becomes of a packet.
fn pass(walker: &mut Walker<[u8; 1]>, engine: &mut Engine, bytes: &[u8]) -> Vec<u8> {
    let mut output = vec![0; bytes.len()];
    let walked = walker.advance(engine, bytes, &mut output);
    assert_eq!(walked.expect("no header").integrity, Integrity::Good);
    output
}

#[test]
fn matches_are_noted_with_the_packet_in_which_they_end() {
    let mut engine = engine("abc\n/c+d/", Direction::Receive);
    let mut walker = Walker::new(0);
    assert_eq!(pass(&mut walker, &mut engine, b"xab"), b"xab");
    assert_eq!(places(&mut engine), [(code::BEGIN, 0), (code::END, 3)]);
    pass(&mut walker, &mut engine, b"ccd");
    let expected = [
        (code::BEGIN, 0, None),
        (code::MATCH, 1, Some(0)),
        (code::MATCH, 3, Some(1)),
        (code::END, 3, None),
    ];
    let noted = notes(&mut engine);
    assert_eq!(noted.len(), expected.len());
    for (note, (code, at, number)) in noted.iter().zip(expected) {
        assert_eq!((note.code, note.at), (code, at));
        assert!(number.is_none_or(|number| note.value == number));
    }
    assert_eq!(notes(&mut engine), []);
}

#[test]
fn the_state_behind_a_packet_is_the_one_before_the_next() {
    let mut engine = engine("abc\n/c+d/", Direction::Receive);
    let mut walker = Walker::new(0);
    pass(&mut walker, &mut engine, b"xab");
    let behind = notes(&mut engine)[1].value;
    pass(&mut walker, &mut engine, b"c");
    assert_eq!(notes(&mut engine)[0].value, behind);
}

#[test]
fn a_window_begins_anew() {
    let mut engine = engine("abc", Direction::Receive);
    let mut walker = Walker::new(0);
    let mut stream = vec![b'x'; WINDOW as usize - 2];
    stream.extend_from_slice(b"abcabc");
    pass(&mut walker, &mut engine, &stream);
    assert_eq!(
        places(&mut engine),
        [
            (code::BEGIN, 0),
            (code::END, WINDOW),
            (code::BEGIN, WINDOW),
            (code::MATCH, WINDOW + 4),
            (code::END, WINDOW + 4)
        ]
    );
    assert_eq!((walker.index(), walker.offset()), (1, 4));
}

#[test]
fn too_many_matches_leave_the_packet_to_software() {
    let mut engine = engine("a", Direction::Receive);
    let mut walker = Walker::new(0);
    pass(&mut walker, &mut engine, &[b'a'; MAX_NOTES - 2]);
    assert_eq!(notes(&mut engine).len(), MAX_NOTES);
    for _ in 0..2 {
        pass(&mut walker, &mut engine, &[b'a'; MAX_NOTES - 1]);
        assert_eq!(notes(&mut engine), []);
    }
    pass(&mut walker, &mut engine, b"a");
    assert_eq!(notes(&mut engine).len(), 3);
}

#[test]
fn the_rest_of_a_window_with_missing_bytes_is_not_scanned() {
    let mut engine = engine("a", Direction::Receive);
    let mut walker = Walker::new(0);
    pass(&mut walker, &mut engine, b"a");
    walker.pass_missing(&mut engine, 100);
    assert_eq!(notes(&mut engine).len(), 3);
    assert_eq!(pass(&mut walker, &mut engine, b"aaa"), b"aaa");
    assert_eq!(notes(&mut engine), []);
    walker.pass_missing(&mut engine, WINDOW - 104);
    pass(&mut walker, &mut engine, b"a");
    assert_eq!(notes(&mut engine).len(), 3);
}

#[test]
fn what_is_sent_is_passed_as_it_is() {
    let mut engine = engine("a", Direction::Transmit);
    let mut walker = Walker::new(0);
    let stream: Vec<u8> = (0..40_000u32).map(|at| at as u8).collect();
    assert_eq!(pass(&mut walker, &mut engine, &stream), stream);
    assert_eq!(notes(&mut engine), []);
    assert_eq!(walker.index(), 2);
}

#[test]
fn more_than_a_sequence_number_counts_may_be_sent() {
    let mut engine = engine("a", Direction::Transmit);
    let bytes = vec![0; 1 << 26];
    for _ in 0..=1 << 6 {
        engine.absorb(0, (&bytes).into());
    }
}

#[test]
fn a_context_has_room_for_it() {
    assert!(size_of::<Engine>() <= 64, "{}", size_of::<Engine>());
}
