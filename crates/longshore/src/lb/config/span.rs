//! Times as people write them: `250ms`, `5s`, `2m`, `1h`.

use std::fmt;
use std::time::Duration;

use serde::Deserialize;
use serde::de::{self, Visitor};

/// A time from a millisecond to a day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span(pub Duration);

const REMEDY: &str = "a time like \"250ms\", \"5s\", \"2m\" or \"1h\", from 1ms to 24h";

impl Span {
    fn parse(text: &str) -> Option<Span> {
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let (number, unit) = text.split_at(digits);
        let milliseconds = match unit {
            "ms" => 1,
            "s" => 1000,
            "m" => 60_000,
            "h" => 3_600_000,
            _ => return None,
        };
        let time = number.parse::<u64>().ok()?.checked_mul(milliseconds)?;
        (1..=86_400_000)
            .contains(&time)
            .then_some(Span(Duration::from_millis(time)))
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: de::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl Visitor<'_> for Text {
            type Value = Span;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(REMEDY)
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Span, E> {
                Span::parse(text).ok_or_else(|| E::invalid_value(de::Unexpected::Str(text), &self))
            }
        }
        deserializer.deserialize_str(Text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units_and_bounds() {
        for (text, milliseconds) in [
            ("1ms", Some(1)),
            ("250ms", Some(250)),
            ("5s", Some(5000)),
            ("2m", Some(120_000)),
            ("24h", Some(86_400_000)),
            ("25h", None),
            ("0s", None),
            ("5", None),
            ("s", None),
            ("", None),
            ("-1s", None),
            ("1.5s", None),
            ("99999999999999999999h", None),
        ] {
            let span = Span::parse(text).map(|span| span.0.as_millis());
            assert_eq!(span, milliseconds, "{text}");
        }
    }
}
