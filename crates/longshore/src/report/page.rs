//! The page: a title, paragraphs, tables and plots from top to bottom.

use std::fmt::{self, Write as _};

use super::escape::Escaped;
use super::{Bars, Lines, Table};

/// A page under construction; [`Display`](fmt::Display) gives the whole document.
#[derive(Debug)]
pub struct Page {
    title: String,
    body: String,
}

impl Page {
    /// An empty page.
    pub fn new(title: &str) -> Self {
        Self {
            title: title.to_owned(),
            body: String::new(),
        }
    }

    /// Starts a section.
    pub fn heading(&mut self, text: &str) -> &mut Self {
        self.add(format_args!("<h2>{}</h2>\n", Escaped(text)))
    }

    /// A paragraph of plain text.
    pub fn paragraph(&mut self, text: &str) -> &mut Self {
        self.add(format_args!("<p>{}</p>\n", Escaped(text)))
    }

    /// A command line, to be copied.
    pub fn command(&mut self, text: &str) -> &mut Self {
        self.add(format_args!("<pre>{}</pre>\n", Escaped(text)))
    }

    /// A table.
    pub fn table(&mut self, table: &Table) -> &mut Self {
        self.add(format_args!("{table}"))
    }

    /// A plot of bars.
    pub fn bars(&mut self, bars: &Bars) -> &mut Self {
        self.add(format_args!("<figure>\n{bars}</figure>\n"))
    }

    /// A plot of lines.
    pub fn lines(&mut self, lines: &Lines) -> &mut Self {
        self.add(format_args!("<figure>\n{lines}</figure>\n"))
    }

    fn add(&mut self, what: fmt::Arguments<'_>) -> &mut Self {
        self.body
            .write_fmt(what)
            .expect("a String takes all that is written to it");
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
             <title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n<h1>{title}</h1>\n{}\
             </main>\n</body>\n</html>\n",
            self.body
        )
    }
}

const STYLE: &str = "
:root { color-scheme: light dark; --ink: #1b2733; --soft: #5d6b78; --line: #d8dee4; --paper: #ffffff; --tint: #f4f6f8; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e3e9ee; --soft: #9aa8b4; --line: #35414c; --paper: #12181e; --tint: #1b232b; } }
body { margin: 0; background: var(--paper); color: var(--ink); font: 16px/1.55 system-ui, sans-serif; }
main { max-width: 60rem; margin: 0 auto; padding: 2rem 1.25rem 4rem; }
h1 { font-size: 1.7rem; margin: 0 0 .5rem; } h2 { font-size: 1.2rem; margin: 2.2rem 0 .6rem; }
p { max-width: 46rem; } pre { background: var(--tint); padding: .7rem .9rem; overflow-x: auto; border-radius: 4px; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; }
th, td { padding: .35rem .8rem .35rem 0; border-bottom: 1px solid var(--line); text-align: right; white-space: nowrap; }
th { color: var(--soft); font-weight: 600; } th:first-child, td:first-child { text-align: left; }
figure { margin: 1rem 0; } svg { width: 100%; height: auto; } svg text { fill: var(--ink); font: 13px system-ui, sans-serif; }
svg .soft { fill: var(--soft); } svg line { stroke: var(--line); }
";
