//! One self-contained HTML page with tables and plots: no script, no font, no image from elsewhere.

mod bars;
mod escape;
mod legend;
mod lines;
mod page;
mod tables;

pub use bars::{Bar, Bars, figure};
pub use lines::{Line, Lines};
pub use page::Page;
pub use tables::Table;

#[cfg(test)]
mod tests;
