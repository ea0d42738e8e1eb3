//! Tables: columns with units, rows of cells; numbers aligned at the point.

use std::fmt;

use super::columns::{Cell, Column, Unit};
use super::escape::Escaped;
use super::number::significant;

/// A table; the first column names the row and stays in view when the others are scrolled.
#[derive(Clone, Debug, Default)]
pub struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
}

/// A table of a row for each of some things, made column by column.
pub struct Rows<'a, T> {
    of: Vec<&'a T>,
    table: Table,
}

impl<'a, T> Rows<'a, T> {
    /// A row for each of these.
    pub fn of(rows: impl IntoIterator<Item = &'a T>) -> Self {
        let of: Vec<&T> = rows.into_iter().collect();
        let table = Table {
            columns: Vec::new(),
            rows: vec![Vec::new(); of.len()],
        };
        Self { of, table }
    }

    /// With one more column.
    pub fn column<C: Into<Cell>>(mut self, column: Column, cell: impl Fn(&'a T) -> C) -> Self {
        self.table.add_column(column);
        for (row, of) in self.table.rows.iter_mut().zip(&self.of) {
            row.push(cell(of).into());
        }
        self
    }
}

impl<T> From<Rows<'_, T>> for Table {
    fn from(rows: Rows<'_, T>) -> Self {
        rows.table
    }
}

/// A column, ready to be written.
struct Formatted {
    head: Vec<String>,
    unit: &'static str,
    is_text: bool,
    cells: Vec<String>,
}

impl Table {
    /// A table with these columns. A `\n` in a name breaks it on a terminal.
    ///
    /// # Panics
    /// When two columns have the same name.
    pub fn new(columns: impl IntoIterator<Item = Column>) -> Self {
        let mut table = Self::default();
        for column in columns {
            table.add_column(column);
        }
        table
    }

    fn add_column(&mut self, column: Column) {
        let twice = self.columns.iter().any(|other| other.name == column.name);
        assert!(!twice, "two columns are called {:?}", column.name);
        self.columns.push(column);
    }

    /// Adds a row.
    pub fn row(&mut self, cells: impl IntoIterator<Item = Cell>) -> &mut Self {
        self.rows.push(cells.into_iter().collect());
        self
    }

    /// The same, of a row's name and its numbers.
    pub fn numbers(
        &mut self,
        name: impl Into<Cell>,
        numbers: impl IntoIterator<Item = f64>,
    ) -> &mut Self {
        let numbers = numbers.into_iter().map(Cell::Number);
        self.row(std::iter::once(name.into()).chain(numbers))
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    fn formatted(&self) -> Vec<Formatted> {
        let columns = self.columns.iter().enumerate();
        columns
            .map(|(at, column)| {
                let cells: Vec<&Cell> = self.rows.iter().filter_map(|row| row.get(at)).collect();
                format_column(column, &cells)
            })
            .collect()
    }

    /// The table as lines of text, columns aligned, for a terminal.
    pub fn text(&self) -> String {
        let columns = self.formatted();
        let heads = columns.iter().map(|column| column.lines().len()).max();
        let heads = heads.unwrap_or(0);
        let mut out = String::new();
        for at in 0..heads + self.rows.len() {
            let mut line = String::new();
            for (number, column) in columns.iter().enumerate() {
                let cell = column.line(at, heads);
                let gap = " ".repeat(column.width() - cell.chars().count());
                let (before, after) = match column.is_text {
                    true => ("", &gap[..]),
                    false => (&gap[..], ""),
                };
                line += if number > 0 { "  " } else { "" };
                line += before;
                line += &cell;
                line += after;
            }
            out += line.trim_end();
            out.push('\n');
        }
        out
    }
}

fn format_column(column: &Column, cells: &[&Cell]) -> Formatted {
    let numbers = cells.iter().filter_map(|cell| match cell {
        Cell::Number(number) if number.is_finite() => Some(number.abs()),
        _ => None,
    });
    let (divisor, unit) = column.scale(numbers.fold(0.0, f64::max));
    let is_count = matches!(column.unit, Unit::Count) && divisor == 1.0;
    let text = |cell: &&Cell| match cell {
        Cell::Text(text) => text.clone(),
        Cell::Number(number) if is_count => format!("{number:.0}"),
        Cell::Number(number) => significant(number / divisor),
        Cell::Missing => "–".to_owned(),
    };
    let is_text = matches!(column.unit, Unit::Text);
    let mut texts: Vec<String> = cells.iter().map(text).collect();
    if cells.iter().any(|cell| matches!(cell, Cell::Number(_))) {
        align_at_the_point(&mut texts);
    }
    Formatted {
        head: column.name.split('\n').map(str::to_owned).collect(),
        unit,
        is_text,
        cells: texts,
    }
}

/// Pads each number to the right by what the longest has more behind its point.
fn align_at_the_point(cells: &mut [String]) {
    let behind = |cell: &str| cell.find('.').map_or(0, |point| cell.len() - point);
    let most = cells.iter().map(|cell| behind(cell)).max().unwrap_or(0);
    for cell in cells {
        let lacks = most - behind(cell);
        cell.push_str(&" ".repeat(lacks));
    }
}

impl Formatted {
    /// The head on a terminal: the name, and the unit below it.
    fn lines(&self) -> Vec<&str> {
        let unit = (!self.unit.is_empty()).then_some(self.unit);
        self.head.iter().map(String::as_str).chain(unit).collect()
    }

    fn width(&self) -> usize {
        let cells = self.cells.iter().map(String::as_str);
        let all = cells.chain(self.lines());
        all.map(|cell| cell.chars().count()).max().unwrap_or(0)
    }

    /// A line of the table: heads stand on the line above the first row.
    fn line(&self, at: usize, heads: usize) -> String {
        let lines = self.lines();
        match at.checked_sub(heads) {
            Some(row) => self.cells.get(row).cloned().unwrap_or_default(),
            None => (at + lines.len())
                .checked_sub(heads)
                .map_or("", |line| lines[line])
                .to_owned(),
        }
    }
}

/// Characters that a table must have not to fit a phone held upright, and a window.
const PHONE: usize = 46;
const WINDOW: usize = 125;
/// Characters after which names of rows are broken on a phone.
const NAME: usize = 20;

/// Characters of a table with its gaps.
fn in_window(columns: &[Formatted]) -> usize {
    columns.iter().map(|column| column.width() + 3).sum()
}

/// The same, with names of rows broken too.
fn on_phone(columns: &[Formatted]) -> usize {
    let first = columns.first().map_or(0, |column| column.width() + 3);
    in_window(columns) - first + first.min(NAME)
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = self.formatted();
        let hint = match (on_phone(&columns), in_window(&columns)) {
            (_, WINDOW..) => "wide",
            (PHONE.., _) => "wide-on-phone",
            _ => "fits",
        };
        writeln!(
            f,
            "<div class=\"table {hint}\"><p class=\"hint\">scroll for more columns →</p>"
        )?;
        f.write_str("<div class=\"scroll\" tabindex=\"0\"><table>\n<thead><tr>")?;
        for column in &columns {
            let class = if column.is_text {
                " class=\"words\""
            } else {
                ""
            };
            write!(f, "<th{class}>")?;
            for (at, line) in column.head.iter().enumerate() {
                let gap = if at > 0 { "<br>" } else { "" };
                write!(f, "{gap}{}", Escaped(line))?;
            }
            if !column.unit.is_empty() {
                write!(f, " <span class=\"unit\">{}</span>", Escaped(column.unit))?;
            }
            f.write_str("</th>")?;
        }
        f.write_str("</tr></thead>\n<tbody>\n")?;
        for row in 0..self.rows.len() {
            f.write_str("<tr>")?;
            for column in &columns {
                let cell = column.cells.get(row).map_or("", String::as_str);
                let class = if column.is_text {
                    " class=\"words\""
                } else {
                    ""
                };
                write!(f, "<td{class}>{}</td>", Escaped(&padded(cell)))?;
            }
            f.write_str("</tr>\n")?;
        }
        f.write_str("</tbody></table></div></div>\n")
    }
}

/// Blanks at the end become spaces as wide as a point and as digits.
fn padded(cell: &str) -> String {
    let text = cell.trim_end();
    let mut out = text.to_owned();
    for at in 0..cell.len() - text.len() {
        out.push(match (at, text.contains('.')) {
            (0, false) => '\u{2008}',
            _ => '\u{2007}',
        });
    }
    out
}
