//! The tables of the page.

use std::fmt::Write;

use nic::ring::layout::{Kind, Layout, layouts};

/// The page with the tables that follow `**Name**` at the beginning of a line as they are to be.
///
/// # Panics
/// When the page has no such line for a struct, or gives it another opcode, size or flags.
pub(super) fn corrected(page: &str) -> String {
    let mut page = page.to_owned();
    for layout in layouts().iter().flatten() {
        let title = title(layout);
        let at = page.find(&title).unwrap_or_else(|| {
            panic!("docs/device.md has no line that begins with: {title}");
        });
        let table = at + page[at..].find("\n| ").expect("a table follows") + 1;
        let end = page[table..]
            .find("\n\n")
            .map_or(page.len(), |end| table + end + 1);
        page.replace_range(table..end, &rows(layout));
    }
    page
}

/// How the paragraph above a table begins.
fn title(layout: &Layout) -> String {
    let mut title = format!("\n**{}**", layout.name);
    if layout.opcode != 0 {
        write!(title, " ({})", layout.opcode).unwrap();
    }
    write!(title, ", {} bytes", layout.size).unwrap();
    for (n, flag) in layout.flags.iter().enumerate() {
        let before = if n == 0 { "; flags: " } else { ", " };
        write!(title, "{before}{} `{}`", flag.value, flag.name).unwrap();
    }
    title + "."
}

fn rows(layout: &Layout) -> String {
    let mut rows = String::from("| offset | size | name | meaning |\n| --- | --- | --- | --- |\n");
    for field in layout.fields.iter().filter(|field| !field.is_reserved()) {
        let mut name = format!("`{}`", field.name);
        match (field.count, field.kind) {
            (Some(count), _) if count == field.size => {}
            (Some(count), Kind::Struct(of)) => write!(name, ": {count} × {}", of.name).unwrap(),
            (Some(count), Kind::Number(_)) => write!(name, ": {count}").unwrap(),
            (None, Kind::Struct(of)) => write!(name, ": {}", of.name).unwrap(),
            (None, Kind::Number(_)) => {}
        }
        let meaning = field.about.trim();
        writeln!(
            rows,
            "| {} | {} | {name} | {meaning} |",
            field.offset, field.size
        )
        .unwrap();
    }
    rows
}
