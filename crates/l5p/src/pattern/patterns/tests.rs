use proptest::collection::vec;
use proptest::prelude::*;
use regex_automata::nfa::thompson::{self, pikevm::PikeVM};
use regex_automata::util::syntax;

use super::*;
use crate::pattern::fixture::pattern;

fn matches(text: &str, stream: &[u8]) -> Vec<(usize, u32)> {
    let patterns = Patterns::parse(text, TABLES).expect("good patterns");
    let mut found = Vec::new();
    patterns
        .automata
        .scan(patterns.automata.start(), stream, |end, number| {
            found.push((end, number));
            true
        });
    found.sort_unstable();
    found
}

#[test]
fn every_pattern_is_found_wherever_it_ends() {
    assert_eq!(
        matches("# strings\nhe\nshe\n\nhers", b"ushers"),
        [(4, 0), (4, 1), (6, 2)]
    );
    assert_eq!(matches("/a+/", b"baab"), [(2, 0), (3, 0)]);
    assert_eq!(matches("/a.*b/", b"axbxb\nb"), [(3, 0), (5, 0)]);
    assert_eq!(matches("/a.b/s", b"a\nb"), [(3, 0)]);
    assert_eq!(matches("/GET/i\nget", b"get Get"), [(3, 0), (3, 1), (7, 0)]);
    assert_eq!(matches(r"/\xff[\x00-\x7f]/", b"\xff\xff\x00"), [(3, 0)]);
}

#[test]
fn errors_have_the_line() {
    let error = |text, limit| Patterns::parse(text, limit).unwrap_err();
    assert_eq!(error("# nothing\n\n", TABLES), PatternsError::Empty);
    assert_eq!(
        error("good\n\n/bad(/", TABLES).to_string(),
        "line 3: the expression is wrong: unclosed group"
    );
    let strings: String = (0..1000).map(|n| format!("{n:x}-is-long\n")).collect();
    assert!(matches!(
        error(&strings, 1 << 16),
        PatternsError::StringsTooLarge { needed, limit: 65536 } if needed > 1 << 16
    ));
    assert_eq!(
        error("a\n/b/\n/a.{30}b/", TABLES),
        PatternsError::ExpressionTooLarge {
            line: 3,
            limit: TABLES - Patterns::parse("a", TABLES).unwrap().tables_len(),
        }
    );
    let expressions: String = (0..40).map(|n| format!("/x{n}.{{4}}y/\n")).collect();
    assert!(matches!(
        error(&expressions, 1 << 14),
        PatternsError::ExpressionsTooLarge { .. }
    ));
}

#[test]
fn a_pattern_is_found_again_by_its_number() {
    let patterns = Patterns::parse("# first\n  a \n/b/i\n", TABLES).unwrap();
    assert_eq!(patterns.count(), 2);
    let places = [0, 1, 2].map(|number| (patterns.line(number), patterns.text(number)));
    assert_eq!(
        places,
        [(Some(2), Some("a")), (Some(3), Some("/b/i")), (None, None)]
    );
}

#[test]
fn the_same_text_gives_the_same_states() {
    let text = "abc\nbcd\n/a+[bc]/\n/c.{3}d/i";
    let stream = b"abcabcdaabcxcabcd".repeat(9);
    let behind = |_| {
        let automata = Patterns::parse(text, TABLES).unwrap().automata;
        automata
            .scan(automata.start(), &stream, |_, _| true)
            .value()
    };
    let values = [(); 8].map(behind);
    assert!(values.iter().all(|value| *value == values[0]));
}

/// A host may have its own lists one behind the other, and a device that makes tables for others must not run out of memory over them.
#[test]
fn a_string_on_many_lines_needs_no_larger_table() {
    let long = "a".repeat(4000);
    let once = Patterns::parse(&format!("a\n{long}"), TABLES).unwrap();
    let text = "a\n".repeat(2000) + &long;
    let often = Patterns::parse(&text, TABLES).unwrap();
    assert_eq!(often.tables_len(), once.tables_len());
    let expected: Vec<_> = (0..2000).map(|number| (2, number)).collect();
    assert_eq!(matches(&text, b"ba"), expected);
}

#[test]
fn no_more_is_told_than_is_wanted() {
    for text in ["a\na\na\naa", "/a/\n/a+/\n/[ab]/", "a\na\n/a/"] {
        let automata = Patterns::parse(text, TABLES).unwrap().automata;
        for len in [3, 2000] {
            let stream = vec![b'a'; len];
            let whole = automata.scan(automata.start(), &stream, |_, _| true);
            let mut told = 0;
            let state = automata.scan(automata.start(), &stream, |_, _| {
                told += 1;
                told < 5
            });
            assert_eq!((state, told), (whole, 5), "{text}, {len}");
        }
    }
}

#[test]
fn only_states_have_values() {
    for text in ["abc", "/a+b/", "abc\n/a+b/"] {
        let patterns = Patterns::parse(text, TABLES).unwrap();
        let mut state = patterns.automata.start();
        for byte in *b"ababcxaab" {
            assert_eq!(patterns.automata.state(state.value()), Some(state));
            state = patterns.automata.scan(state, &[byte], |_, _| true);
        }
        let values = (0..1000).flat_map(|low| (0..1000).map(move |high| high << 32 | low));
        let states = values.filter(|value| patterns.automata.state(*value).is_some());
        assert!(states.count() < 100);
        assert_eq!(patterns.automata.state(u64::MAX), None);
    }
}

/// Every place where a pattern ends, by trying all beginnings.
fn tried(lines: &[String], stream: &[u8]) -> Vec<(usize, u32)> {
    let mut found = Vec::new();
    for (number, line) in lines.iter().enumerate() {
        let expression = match line.strip_prefix('/') {
            Some(rest) => rest.strip_suffix('/').expect("an expression").to_owned(),
            None => line.clone(),
        };
        let whole = PikeVM::builder()
            .syntax(syntax::Config::new().unicode(false).utf8(false))
            .thompson(thompson::Config::new().utf8(false))
            .build(&format!(r"\A(?:{expression})\z"))
            .expect("a good expression");
        let mut cache = whole.create_cache();
        for end in 0..=stream.len() {
            if (0..end).any(|begin| whole.is_match(&mut cache, &stream[begin..end])) {
                found.push((end, number as u32));
            }
        }
    }
    found.sort_unstable();
    found
}

proptest! {
    #[test]
    fn a_scan_finds_what_trying_all_places_finds(
        lines in vec(pattern(), 1..5),
        stream in vec(prop::sample::select(&b"aaabbbc\n"[..]), 0..24),
        cuts in vec(0..24usize, 0..4),
    ) {
        let expected = tried(&lines, &stream);
        let patterns = Patterns::parse(&lines.join("\n"), TABLES).expect("good patterns");
        let mut found = Vec::new();
        let mut state = patterns.automata.start();
        let mut places: Vec<usize> = cuts.iter().map(|cut| cut % (stream.len() + 1)).collect();
        places.extend([0, stream.len()]);
        places.sort_unstable();
        for piece in places.windows(2) {
            state = patterns.automata.scan(state, &stream[piece[0]..piece[1]], |end, number| {
                found.push((piece[0] + end, number));
                true
            });
        }
        found.sort_unstable();
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn the_bytes_all_at_once_give_what_they_give_one_by_one(
        lines in vec(pattern(), 1..5),
        seldom in 1..40u32,
        bytes in vec((any::<u32>(), prop::sample::select(&b"aaabbbc\n"[..])), 200..1500),
    ) {
        let stream: Vec<u8> = bytes
            .iter()
            .map(|(random, byte)| if random % seldom == 0 { *byte } else { b'.' })
            .collect();
        let patterns = Patterns::parse(&lines.join("\n"), TABLES).expect("good patterns");
        let automata = &patterns.automata;
        let mut at_once = Vec::new();
        let behind = automata.scan(automata.start(), &stream, |end, number| {
            at_once.push((end, number));
            true
        });
        at_once.sort_unstable();
        let mut one_by_one = Vec::new();
        let mut state = automata.start();
        for (at, byte) in stream.iter().enumerate() {
            state = automata.scan(state, &[*byte], |end, number| {
                one_by_one.push((at + end, number));
                true
            });
        }
        one_by_one.sort_unstable();
        prop_assert_eq!(at_once, one_by_one);
        prop_assert_eq!(behind, state);
    }
}
