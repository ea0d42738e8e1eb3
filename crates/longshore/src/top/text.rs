//! Tables line by line, for scripts and logs.

use std::fmt::Write as _;

use super::rates::Rates;
use super::tables::{self, Selection, Table};

/// Everything that the screen shows, one table after the other.
pub fn report(rates: &Rates, selection: &Selection) -> String {
    let all = [
        tables::services(rates),
        tables::threads(rates),
        tables::traffic(rates),
        tables::trouble(rates),
        tables::counters(rates, selection),
        tables::connections(rates, selection),
    ];
    let mut text = String::new();
    for table in all.iter().filter(|table| !table.rows.is_empty()) {
        write(&mut text, table);
        text.push('\n');
    }
    text
}

fn write(text: &mut String, table: &Table) {
    let _ = writeln!(text, "{}:", table.title);
    let widths: Vec<usize> = (0..table.columns.len()).map(|at| table.width(at)).collect();
    let mut line = |cells: &mut dyn Iterator<Item = &str>| {
        let mut line = String::new();
        for ((column, width), cell) in table.columns.iter().zip(&widths).zip(cells) {
            let _ = match column.is_number {
                true => write!(line, "{cell:>width$}  "),
                false => write!(line, "{cell:<width$}  "),
            };
        }
        let _ = writeln!(text, "  {}", line.trim_end());
    };
    line(&mut table.columns.iter().map(|column| column.name));
    for row in &table.rows {
        line(&mut row.iter().map(String::as_str));
    }
}
