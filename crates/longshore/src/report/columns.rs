//! Columns of a table, and what stands in them.

use super::number::{binary, decimal};

/// The head of a column and the unit of its numbers.
#[derive(Clone, Debug)]
pub struct Column {
    pub(super) name: String,
    pub(super) unit: Unit,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Unit {
    Text,
    Fixed(&'static str),
    Bytes,
    /// Exact: in full below a million.
    Count,
    /// Measured: in full below ten thousand.
    Rate,
}

/// What stands in a row.
#[derive(Clone, Debug)]
pub enum Cell {
    /// Words, or a number that is formatted already.
    Text(String),
    /// In the unit of the column before it is scaled.
    Number(f64),
    /// Not measured, or not applicable.
    Missing,
}

impl Column {
    /// Words.
    pub fn text(name: &str) -> Self {
        Self::new(name, Unit::Text)
    }

    /// Numbers in this unit; without one, the column's name or the table's heading gives it.
    pub fn number(name: &str, unit: &'static str) -> Self {
        Self::new(name, Unit::Fixed(unit))
    }

    /// Bytes, all in the one binary unit that suits the largest of them.
    pub fn bytes(name: &str) -> Self {
        Self::new(name, Unit::Bytes)
    }

    /// Things counted, in thousands or more when there are a million.
    pub fn count(name: &str) -> Self {
        Self::new(name, Unit::Count)
    }

    /// A measured rate, in thousands or more when it reaches ten thousand.
    pub fn rate(name: &str) -> Self {
        Self::new(name, Unit::Rate)
    }

    fn new(name: &str, unit: Unit) -> Self {
        let name = name.to_owned();
        Self { name, unit }
    }

    /// What its numbers are divided by, and the unit that they have then.
    pub(super) fn scale(&self, largest: f64) -> (f64, &'static str) {
        match self.unit {
            Unit::Text => (1.0, ""),
            Unit::Fixed(unit) => (1.0, unit),
            Unit::Bytes => match binary(largest) {
                (divisor, "") => (divisor, "bytes"),
                scaled => scaled,
            },
            Unit::Count => decimal(largest, 1e6),
            Unit::Rate => decimal(largest, 1e4),
        }
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<f64> for Cell {
    fn from(number: f64) -> Self {
        Self::Number(number)
    }
}

impl From<u64> for Cell {
    fn from(number: u64) -> Self {
        Self::Number(number as f64)
    }
}

impl<T: Into<Cell>> From<Option<T>> for Cell {
    fn from(maybe: Option<T>) -> Self {
        maybe.map_or(Self::Missing, Into::into)
    }
}
