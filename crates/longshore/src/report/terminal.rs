//! The report on a terminal.

use super::Page;
use super::page::Block;

/// Columns of a terminal that lines fit in.
pub const COLUMNS: usize = 100;

impl Page {
    /// The lines for a terminal: no plots, and what came of it at the end.
    pub fn text(&self) -> String {
        let mut out = format!("{}\n", wrapped(&self.machine));
        for block in &self.blocks {
            match block {
                Block::Heading(text) => {
                    let gap = if out.ends_with("\n\n") { "" } else { "\n" };
                    out += &format!("{gap}{}\n", wrapped(text));
                }
                Block::Paragraph(text) => out += &format!("{}\n", wrapped(text)),
                Block::Table(table) | Block::TwoTables(table, _) => {
                    out += &format!("{}\n", table.text())
                }
                Block::Explanation(_) | Block::Bars(_) | Block::Lines(_) | Block::Details(..) => {}
            }
        }
        let ending = self.conclusions.iter().chain(&self.warnings);
        for (at, text) in ending.enumerate() {
            let is_apart = at > 0 || out.ends_with("\n\n");
            let gap = if is_apart { "" } else { "\n" };
            out += &format!("{gap}{}\n", wrapped(text));
        }
        out
    }
}

/// Checks that every line of a report fits a terminal, and that it ends in a conclusion with these words.
///
/// # Panics
/// When that is not so.
#[cfg(test)]
pub fn assert_concludes(page: &Page, words: &str) {
    let text = page.text();
    for line in text.lines() {
        assert!(line.chars().count() <= COLUMNS, "{line}\nin\n{text}");
    }
    assert!(text.replace('\n', " ").contains(words), "{text}");
    assert!(page.to_string().contains("class=\"conclusion\""));
}

/// The text, broken between words.
fn wrapped(text: &str) -> String {
    let mut out = String::new();
    let mut column = 0;
    for word in text.split(' ') {
        let len = word.chars().count();
        if column > 0 && column + 1 + len > COLUMNS {
            out.push('\n');
            column = 0;
        } else if column > 0 {
            out.push(' ');
            column += 1;
        }
        out += word;
        column += len;
    }
    out
}
