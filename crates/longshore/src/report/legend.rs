//! Names and colours of what a plot shows.

use std::fmt;

use super::escape::Escaped;

/// Told apart also by those who see fewer colours (after Okabe and Ito).
pub const COLOURS: [&str; 7] = [
    "#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#8a8a8a",
];

/// Writes a row of names with their colours, below a plot's title.
pub fn write<'a>(
    f: &mut fmt::Formatter<'_>,
    names: impl Iterator<Item = &'a String>,
) -> fmt::Result {
    let mut x = 0.0;
    for (name, colour) in names.zip(COLOURS.iter().cycle()) {
        writeln!(
            f,
            "<rect x=\"{x:.1}\" y=\"29\" width=\"12\" height=\"12\" fill=\"{colour}\"/>"
        )?;
        writeln!(
            f,
            "<text class=\"soft\" x=\"{:.1}\" y=\"40\">{}</text>",
            x + 17.0,
            Escaped(name)
        )?;
        x += 40.0 + 7.2 * name.chars().count() as f64;
    }
    Ok(())
}
