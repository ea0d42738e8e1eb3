//! Names and colours of what a plot shows.

use std::fmt;

use super::escape::Escaped;

/// Colours that the style has, as classes `c0`, `c1`, ….
pub const COLOURS: usize = 7;

/// Writes the names with their colours; a single name needs no legend.
pub fn write<'a>(
    f: &mut fmt::Formatter<'_>,
    names: impl ExactSizeIterator<Item = &'a String>,
) -> fmt::Result {
    if names.len() < 2 {
        return Ok(());
    }
    f.write_str("<ul class=\"legend\">")?;
    for (name, colour) in names.zip((0..COLOURS).cycle()) {
        write!(f, "<li><i class=\"c{colour}\"></i>{}</li>", Escaped(name))?;
    }
    f.write_str("</ul>\n")
}
