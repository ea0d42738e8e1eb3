//! Text inside of HTML and SVG.

use std::fmt;

/// Displays text with the characters escaped that mean something in HTML, in content and in attributes.
pub struct Escaped<'a>(pub &'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.chars() {
            match c {
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '&' => f.write_str("&amp;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                c => f.write_str(c.encode_utf8(&mut [0; 4]))?,
            }
        }
        Ok(())
    }
}
