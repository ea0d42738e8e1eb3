//! `Range` (RFC 9110 §14).

/// Bytes of a representation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteRange {
    /// The first byte.
    pub start: u64,
    /// How many.
    pub len: u64,
}

/// What a `Range` field asks of a representation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ranges {
    /// The field is absent, of another unit, malformed, or not worth obeying: send it all.
    Whole,
    /// These, in the order they were asked for.
    Parts(Vec<ByteRange>),
    /// None of them exists.
    Unsatisfiable,
}

/// More parts than this are an attack or a mistake (RFC 9110 §17.15): the whole is sent instead.
const MOST_PARTS: usize = 32;

/// What the field asks of `size` bytes.
pub fn resolve(field: Option<&str>, size: u64) -> Ranges {
    let Some(set) = field.and_then(range_set) else {
        return Ranges::Whole;
    };
    let mut parts = Vec::new();
    for (n, spec) in set.split(',').map(str::trim).enumerate() {
        if n >= MOST_PARTS {
            return Ranges::Whole;
        }
        if spec.is_empty() {
            continue;
        }
        match resolve_one(spec, size) {
            Some(Some(range)) => parts.push(range),
            Some(None) => {}
            None => return Ranges::Whole,
        }
    }
    let asked: u128 = parts.iter().map(|part| u128::from(part.len)).sum();
    match parts.len() {
        0 => Ranges::Unsatisfiable,
        // Overlapping parts would send more than there is.
        2.. if asked > u128::from(size) => Ranges::Whole,
        _ => Ranges::Parts(parts),
    }
}

fn range_set(field: &str) -> Option<&str> {
    let (unit, set) = field.split_once('=')?;
    let known = unit.trim().eq_ignore_ascii_case("bytes");
    (known && set.contains('-')).then_some(set)
}

/// `None`: malformed. `Some(None)`: beyond the end.
fn resolve_one(spec: &str, size: u64) -> Option<Option<ByteRange>> {
    let (first, last) = spec.split_once('-')?;
    if first.is_empty() {
        let suffix = digits(last)?.min(size);
        return Some((suffix > 0).then(|| ByteRange {
            start: size - suffix,
            len: suffix,
        }));
    }
    let start = digits(first)?;
    let last = match last {
        "" => u64::MAX,
        text => digits(text)?,
    };
    if last < start {
        return None;
    }
    Some((start < size).then(|| ByteRange {
        start,
        len: last.min(size - 1) - start + 1,
    }))
}

/// A number of any length; one beyond 64 bits is as good as the greatest.
fn digits(text: &str) -> Option<u64> {
    let valid = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    valid.then(|| text.parse().unwrap_or(u64::MAX))
}
