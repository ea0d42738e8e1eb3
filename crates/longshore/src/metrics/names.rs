//! Names of metrics by Prometheus's conventions, out of the names of counters.

/// What a metric's values are in. The names of the others say what they count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Bytes.
    Bytes,
    /// Cycles of the processor's time-stamp counter.
    Cycles,
}

/// `tx_tls_ooo` as it is, `TcpInSegs` as `tcp_in_segs`.
pub fn snake_case(name: &str) -> String {
    let mut snake = String::with_capacity(name.len() + 8);
    let mut previous = '_';
    let mut characters = name.chars().peekable();
    while let Some(character) = characters.next() {
        let begins_word = character.is_ascii_uppercase()
            && (previous.is_ascii_lowercase()
                || previous.is_ascii_digit()
                || characters.peek().is_some_and(char::is_ascii_lowercase));
        if begins_word && previous != '_' {
            snake.push('_');
        }
        snake.push(match character {
            character if character.is_ascii_alphanumeric() => character.to_ascii_lowercase(),
            _ => '_',
        });
        previous = character;
    }
    snake
}

/// The unit that a name has among its words, and the name without it: metrics end in their unit.
pub fn split_unit(name: &str) -> (String, Option<Unit>) {
    for (word, unit) in [("bytes", Unit::Bytes), ("cycles", Unit::Cycles)] {
        let words = name.split('_');
        if words.clone().any(|each| each == word) {
            let rest: Vec<&str> = words.filter(|each| *each != word).collect();
            return (rest.join("_"), Some(unit));
        }
    }
    (name.to_owned(), None)
}
