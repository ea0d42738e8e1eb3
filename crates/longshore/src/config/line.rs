//! Lines of the file, for messages.

use std::ops::Range;

use toml::de::{DeTable, DeValue};

/// The line of a byte, from 1.
pub fn of_byte(text: &str, at: usize) -> usize {
    let before = text.as_bytes().iter().take(at);
    1 + before.filter(|byte| **byte == b'\n').count()
}

/// The line of a value, by its key with its tables, as in `pools.app.backends[1].weight`; of the table around it if it is
/// missing.
pub fn of_key(text: &str, key: &str) -> usize {
    let Ok(file) = DeTable::parse(text) else {
        return 1;
    };
    let span = in_table(file.get_ref(), key).unwrap_or(0..0);
    of_byte(text, span.start)
}

fn in_table(table: &DeTable<'_>, path: &str) -> Option<Range<usize>> {
    // A name may have a dot in it: the longest one that fits.
    let rest = |name: &str| path.strip_prefix(name).filter(|rest| ends_key(rest));
    let entries = table.iter();
    let fitting = entries.filter_map(|(name, value)| Some((name, value, rest(name.get_ref())?)));
    let (name, value, rest) = fitting.min_by_key(|(_, _, rest)| rest.len())?;
    let deeper = in_value(value.get_ref(), rest.strip_prefix('.').unwrap_or(rest));
    Some(deeper.unwrap_or(match value.get_ref() {
        DeValue::Table(_) => name.span(),
        _ => value.span(),
    }))
}

fn in_value(value: &DeValue<'_>, path: &str) -> Option<Range<usize>> {
    match value {
        DeValue::Table(table) => in_table(table, path),
        DeValue::Array(list) => {
            let (index, rest) = path.strip_prefix('[')?.split_once(']')?;
            let value = list.get(index.parse::<usize>().ok()?)?;
            let rest = rest.strip_prefix('.').unwrap_or(rest);
            Some(in_value(value.get_ref(), rest).unwrap_or(value.span()))
        }
        _ => None,
    }
}

fn ends_key(rest: &str) -> bool {
    rest.is_empty() || rest.starts_with(['.', '['])
}
