//! Horizontal bars, each stacked of parts. They are HTML, not an image, so that their text keeps its size on a phone.

use std::fmt;

use super::escape::Escaped;
use super::legend::{self, COLOURS};
use super::number::significant;

/// One bar: its label and the value of each part, in the order of the legend.
#[derive(Clone, Debug)]
pub struct Bar {
    /// Left of the bar, above it on a phone.
    pub label: String,
    /// One value for each entry of the legend; not negative.
    pub parts: Vec<f64>,
}

/// A plot of stacked bars on one scale.
#[derive(Clone, Debug)]
pub struct Bars {
    /// Above the plot; names the unit.
    pub title: String,
    /// Names of the parts.
    pub legend: Vec<String>,
    /// From top to bottom.
    pub bars: Vec<Bar>,
}

impl Bar {
    fn sum(&self) -> f64 {
        self.parts.iter().sum()
    }
}

impl fmt::Display for Bars {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "<figure><figcaption>{}</figcaption>",
            Escaped(&self.title)
        )?;
        legend::write(f, self.legend.iter())?;
        let longest = self.bars.iter().map(Bar::sum).fold(0.0, f64::max);
        let percent = if longest > 0.0 { 100.0 / longest } else { 0.0 };
        for bar in &self.bars {
            self.bar(f, bar, percent)?;
        }
        f.write_str("</figure>\n")
    }
}

impl Bars {
    fn bar(&self, f: &mut fmt::Formatter<'_>, bar: &Bar, percent: f64) -> fmt::Result {
        write!(
            f,
            "<div class=\"bar\"><span class=\"label\">{}</span><span class=\"track\">",
            Escaped(&bar.label)
        )?;
        let colours = (0..COLOURS).cycle();
        for (value, (name, colour)) in bar.parts.iter().zip(self.legend.iter().zip(colours)) {
            if value * percent > 0.0 {
                write!(
                    f,
                    "<i class=\"c{colour}\" style=\"width:{:.2}%\" title=\"{}: {}\"></i>",
                    value * percent,
                    Escaped(name),
                    significant(*value)
                )?;
            }
        }
        writeln!(f, "<b>{}</b></span></div>", significant(bar.sum()))
    }
}
