//! The report: a title, what came of it, and paragraphs, tables and plots from top to bottom.

use std::fmt;

use super::escape::Escaped;
use super::{Bars, Lines, Table, machine, style::STYLE};

/// A report under construction; [`Display`](fmt::Display) gives the HTML document, [`text`](Self::text) the lines for a terminal.
#[derive(Debug)]
pub struct Page {
    title: String,
    pub(super) command: String,
    pub(super) machine: String,
    pub(super) conclusions: Vec<String>,
    pub(super) warnings: Vec<String>,
    pub(super) blocks: Vec<Block>,
}

/// A part of a report.
#[derive(Debug)]
pub(super) enum Block {
    Heading(String),
    Paragraph(String),
    /// On the page alone.
    Explanation(String),
    Table(Table),
    /// For a terminal and for the page.
    TwoTables(Table, Table),
    /// On the page alone.
    Bars(Bars),
    /// On the page alone.
    Lines(Lines),
    /// On the page alone, folded under a title.
    Details(String, Table),
}

impl Page {
    /// An empty report of this machine; `command` repeats it.
    pub fn new(title: &str, command: &str) -> Self {
        let mut page = Self {
            title: title.to_owned(),
            command: command.to_owned(),
            machine: machine::describe(),
            conclusions: Vec::new(),
            warnings: Vec::new(),
            blocks: Vec::new(),
        };
        if cfg!(debug_assertions) {
            page.warning("This is a debug build: measure with a release build.");
        }
        page
    }

    /// What came of it, in a sentence: at the top of the page, at the end on a terminal.
    pub fn conclusion(&mut self, text: impl Into<String>) -> &mut Self {
        self.conclusions.push(text.into());
        self
    }

    /// Why not to trust the figures; stands beside the conclusions.
    pub fn warning(&mut self, text: impl Into<String>) -> &mut Self {
        self.warnings.push(text.into());
        self
    }

    /// Starts a section.
    pub fn heading(&mut self, text: impl Into<String>) -> &mut Self {
        self.add(Block::Heading(text.into()))
    }

    /// A paragraph of plain text.
    pub fn paragraph(&mut self, text: impl Into<String>) -> &mut Self {
        self.add(Block::Paragraph(text.into()))
    }

    /// A paragraph for the page, which the terminal goes without.
    pub fn explanation(&mut self, text: impl Into<String>) -> &mut Self {
        self.add(Block::Explanation(text.into()))
    }

    /// A table; one without rows is left out.
    pub fn table(&mut self, table: impl Into<Table>) -> &mut Self {
        let table = table.into();
        if table.is_empty() {
            return self;
        }
        self.add(Block::Table(table))
    }

    /// A table for a terminal, and a wider one for the page.
    pub fn tables(&mut self, terminal: impl Into<Table>, page: impl Into<Table>) -> &mut Self {
        self.add(Block::TwoTables(terminal.into(), page.into()))
    }

    /// A plot of bars, on the page.
    pub fn bars(&mut self, bars: Bars) -> &mut Self {
        self.add(Block::Bars(bars))
    }

    /// A plot of lines, on the page.
    pub fn lines(&mut self, lines: Lines) -> &mut Self {
        self.add(Block::Lines(lines))
    }

    /// A table for the page alone, folded under a title.
    pub fn details(&mut self, title: String, table: impl Into<Table>) -> &mut Self {
        let table = table.into();
        if table.is_empty() {
            return self;
        }
        self.add(Block::Details(title, table))
    }

    fn add(&mut self, block: Block) -> &mut Self {
        self.blocks.push(block);
        self
    }
}

impl fmt::Display for Page {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let title = Escaped(&self.title);
        write!(
            f,
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n<h1>{title}</h1>\n"
        )?;
        if !self.conclusions.is_empty() {
            f.write_str("<div class=\"conclusion\">\n")?;
            for text in &self.conclusions {
                writeln!(f, "<p>{}</p>", Escaped(text))?;
            }
            f.write_str("</div>\n")?;
        }
        for text in &self.warnings {
            writeln!(f, "<p class=\"warning\">{}</p>", Escaped(text))?;
        }
        f.write_str("<pre>")?;
        for (at, part) in self.command.split(" --").enumerate() {
            // An option stays on a line with its value.
            let (gap, dashes) = if at == 0 { ("", "") } else { (" ", "--") };
            write!(f, "{gap}<span>{dashes}{}</span>", Escaped(part))?;
        }
        f.write_str("</pre>\n")?;
        writeln!(f, "<p class=\"machine\">{}</p>", Escaped(&self.machine))?;
        for block in &self.blocks {
            write!(f, "{block}")?;
        }
        f.write_str("</main>\n</body>\n</html>\n")
    }
}

impl fmt::Display for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Heading(text) => writeln!(f, "<h2>{}</h2>", Escaped(text)),
            Self::Paragraph(text) | Self::Explanation(text) => {
                writeln!(f, "<p>{}</p>", Escaped(text))
            }
            Self::Table(table) | Self::TwoTables(_, table) => table.fmt(f),
            Self::Bars(bars) => bars.fmt(f),
            Self::Lines(lines) => lines.fmt(f),
            Self::Details(title, table) => {
                let title = Escaped(title);
                write!(f, "<details><summary>{title}</summary>{table}</details>")
            }
        }
    }
}
