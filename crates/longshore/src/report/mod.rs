//! A report: written once, printed on a terminal and as one self-contained HTML page without a script, font or image from elsewhere.

mod bars;
mod columns;
mod escape;
mod legend;
mod lines;
mod machine;
mod number;
mod page;
mod scatter;
mod style;
mod tables;
mod terminal;

pub use bars::{Bar, Bars};
pub use columns::{Cell, Column};
pub use lines::{Line, Lines};
pub use number::{bytes, prefixed, significant};
pub use page::Page;
pub use scatter::busy;
pub use tables::{Rows, Table};
#[cfg(test)]
pub use terminal::assert_concludes;

#[cfg(test)]
mod tests;
