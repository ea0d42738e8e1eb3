//! Answers as text, and as JSON (`--json`).

mod sockets;

use std::fmt::Write as _;

use serde::Serializer;
use serde::ser::SerializeMap;

use super::glossary::Glossary;
use super::protocol::CounterGroup;

pub use sockets::{FIELDS, sockets};

/// Counters as `ethtool -S` prints them.
pub fn counters(groups: &[CounterGroup], all: bool) -> String {
    let mut text = String::new();
    for group in groups {
        let _ = writeln!(text, "{} statistics:", group.name);
        let shown = |value: u64| all || value != 0;
        for (name, value) in group.counters.iter().filter(|(_, value)| shown(*value)) {
            let _ = writeln!(text, "     {name}: {value}");
        }
    }
    text
}

/// Counters with what each counts behind it.
pub fn explained(groups: &[CounterGroup], all: bool) -> String {
    let glossary = Glossary::new();
    let mut text = String::new();
    for group in groups {
        let _ = writeln!(text, "{} statistics:", group.name);
        let counters = group.counters.iter();
        let shown: Vec<(String, &str)> = counters
            .filter(|(_, value)| all || *value != 0)
            .map(|(name, value)| {
                let explanation = glossary.explain(&group.name, name);
                (format!("{name}: {value}"), explanation.unwrap_or_default())
            })
            .collect();
        let width = shown.iter().map(|(counter, _)| counter.len()).max();
        let width = width.unwrap_or(0);
        for (counter, explanation) in shown {
            let line = format!("     {counter:<width$}  {explanation}");
            let _ = writeln!(text, "{}", line.trim_end());
        }
    }
    text
}

/// Every counter with what it counts.
pub fn glossary() -> String {
    let mut text = String::new();
    for kind in Glossary::new().kinds() {
        let gap = if text.is_empty() { "" } else { "\n" };
        let _ = writeln!(text, "{gap}{}: {}", kind.name, kind.title);
        let names = kind.counters.iter().map(|(name, _)| name.len());
        let width = names.max().unwrap_or(0);
        for (name, explanation) in &kind.counters {
            let _ = writeln!(text, "     {name:<width$}  {explanation}");
        }
    }
    text
}

/// The same as tables of Markdown.
pub fn glossary_markdown() -> String {
    let mut text = String::new();
    for kind in Glossary::new().kinds() {
        let gap = if text.is_empty() { "" } else { "\n" };
        let _ = writeln!(text, "{gap}### `{}`: {}\n", kind.name, kind.title);
        text += "| counter | what it counts |\n| --- | --- |\n";
        for (name, explanation) in &kind.counters {
            let _ = writeln!(text, "| `{name}` | {explanation} |");
        }
    }
    text
}

/// Counters as one JSON object per group, in order.
pub fn counters_json(groups: &[CounterGroup]) -> serde_json::Result<String> {
    let mut out = Vec::new();
    let mut serializer = serde_json::Serializer::pretty(&mut out);
    let mut map = serializer.serialize_map(Some(groups.len()))?;
    for group in groups {
        map.serialize_entry(&group.name, &InOrder(&group.counters))?;
    }
    map.end()?;
    Ok(String::from_utf8_lossy(&out).into_owned())
}

struct InOrder<'a>(&'a [(String, u64)]);

impl serde::Serialize for InOrder<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}
