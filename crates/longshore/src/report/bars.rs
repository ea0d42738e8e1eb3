//! Horizontal bars, each stacked of parts, as inline SVG.

use std::fmt;

use super::escape::Escaped;
use super::legend::{self, COLOURS};

/// One bar: its label and the value of each part, in the order of the legend.
#[derive(Clone, Debug)]
pub struct Bar {
    /// Left of the bar.
    pub label: String,
    /// One value for each entry of the legend; not negative.
    pub parts: Vec<f64>,
}

/// A plot of stacked bars on one scale.
#[derive(Clone, Debug)]
pub struct Bars {
    /// Above the plot, and read out in place of it.
    pub title: String,
    /// After each sum.
    pub unit: String,
    /// Names of the parts.
    pub legend: Vec<String>,
    /// From top to bottom.
    pub bars: Vec<Bar>,
}

const WIDTH: f64 = 860.0;
const LEFT: f64 = 190.0;
const RIGHT: f64 = 120.0;
const ROW: f64 = 34.0;
const HEAD: f64 = 58.0;
impl Bars {
    fn longest(&self) -> f64 {
        self.bars.iter().map(Bar::sum).fold(0.0, f64::max)
    }
}

impl Bar {
    fn sum(&self) -> f64 {
        self.parts.iter().sum()
    }
}

impl fmt::Display for Bars {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let height = HEAD + ROW * self.bars.len() as f64 + 8.0;
        let title = Escaped(&self.title);
        writeln!(
            f,
            "<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{title}\">"
        )?;
        writeln!(
            f,
            "<text x=\"0\" y=\"16\" font-weight=\"600\">{title}</text>"
        )?;
        legend::write(f, self.legend.iter())?;
        let longest = self.longest();
        let scale = if longest > 0.0 {
            (WIDTH - LEFT - RIGHT) / longest
        } else {
            0.0
        };
        for (at, bar) in self.bars.iter().enumerate() {
            self.bar(f, bar, HEAD + ROW * at as f64, scale)?;
        }
        writeln!(
            f,
            "<line x1=\"{LEFT}\" x2=\"{LEFT}\" y1=\"{}\" y2=\"{}\"/>",
            HEAD - 4.0,
            height - 4.0
        )?;
        f.write_str("</svg>\n")
    }
}

impl Bars {
    fn bar(&self, f: &mut fmt::Formatter<'_>, bar: &Bar, y: f64, scale: f64) -> fmt::Result {
        writeln!(
            f,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            LEFT - 10.0,
            y + 16.0,
            Escaped(&bar.label)
        )?;
        let mut x = LEFT;
        for (value, (name, colour)) in bar
            .parts
            .iter()
            .zip(self.legend.iter().zip(COLOURS.iter().cycle()))
        {
            let width = value * scale;
            if width > 0.0 {
                writeln!(
                    f,
                    "<rect x=\"{x:.2}\" y=\"{y:.1}\" width=\"{width:.2}\" height=\"22\" fill=\"{colour}\">\
                     <title>{}: {} {}</title></rect>",
                    Escaped(name),
                    figure(*value),
                    Escaped(&self.unit)
                )?;
            }
            x += width;
        }
        writeln!(
            f,
            "<text x=\"{:.2}\" y=\"{:.1}\">{} {}</text>",
            x + 8.0,
            y + 16.0,
            figure(bar.sum()),
            Escaped(&self.unit)
        )
    }
}

/// A figure with three significant digits or so.
pub fn figure(value: f64) -> String {
    match value.abs() {
        v if v >= 1000.0 => format!("{value:.0}"),
        v if v >= 100.0 => format!("{value:.1}"),
        v if v >= 1.0 => format!("{value:.2}"),
        0.0 => "0".to_owned(),
        v if v >= 0.01 => format!("{value:.3}"),
        _ => format!("{value:.5}"),
    }
}
