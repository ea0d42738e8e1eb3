//! Lines over an axis: the lines are inline SVG, the text around them HTML, so that it keeps its size on a phone.

use std::fmt;

use super::escape::Escaped;
use super::legend::{self, COLOURS};

/// One line: its name and its points, from left to right.
#[derive(Clone, Debug)]
pub struct Line {
    /// In the legend.
    pub label: String,
    /// Not negative.
    pub points: Vec<(f64, f64)>,
}

/// A plot of lines on one scale, from zero on in both directions.
#[derive(Clone, Debug)]
pub struct Lines {
    /// Above the plot.
    pub title: String,
    /// Below the horizontal axis.
    pub x: String,
    /// From the first name of the legend to the last.
    pub lines: Vec<Line>,
    /// Levels to compare with, with their names; drawn across.
    pub levels: Vec<(String, f64)>,
}

/// Steps that an axis is cut into, at most.
const STEPS: f64 = 6.0;

impl Lines {
    /// The largest value to the right, and the largest upwards.
    fn largest(&self) -> (f64, f64) {
        let points = self.lines.iter().flat_map(|line| &line.points);
        let (x, y) = points.fold((0.0, 0.0), |(x, y): (f64, f64), point| {
            (x.max(point.0), y.max(point.1))
        });
        let levels = self.levels.iter().map(|(_, level)| *level);
        (x, levels.fold(y, f64::max))
    }
}

/// Percent of an axis.
fn percent(value: f64, largest: f64) -> f64 {
    if largest > 0.0 {
        100.0 * value / largest
    } else {
        0.0
    }
}

impl fmt::Display for Lines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let title = Escaped(&self.title);
        writeln!(f, "<figure><figcaption>{title}</figcaption>")?;
        legend::write(f, self.lines.iter().map(|line| &line.label))?;
        let (right, up) = self.largest();
        let up = up * 1.05;
        f.write_str("<div class=\"plot\">\n")?;
        for value in ticks(up) {
            let at = percent(value, up);
            writeln!(
                f,
                "<span class=\"y\" style=\"bottom:{at:.2}%\"><b>{value}</b></span>"
            )?;
        }
        for value in ticks(right) {
            let at = percent(value, right);
            writeln!(
                f,
                "<span class=\"x\" style=\"left:{at:.2}%\">{value}</span>"
            )?;
        }
        for (name, level) in &self.levels {
            let at = percent(*level, up);
            let name = Escaped(name);
            writeln!(
                f,
                "<span class=\"level\" style=\"bottom:{at:.2}%\"><b>{name}</b></span>"
            )?;
        }
        self.drawn(f, right, up)?;
        writeln!(
            f,
            "</div><p class=\"axis\">{}</p></figure>",
            Escaped(&self.x)
        )
    }
}

impl Lines {
    /// The lines themselves: stretched to the plot, all text is outside of them.
    fn drawn(&self, f: &mut fmt::Formatter<'_>, right: f64, up: f64) -> fmt::Result {
        writeln!(
            f,
            "<svg viewBox=\"0 0 100 100\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"{}\">",
            Escaped(&self.title)
        )?;
        for (line, colour) in self.lines.iter().zip((0..COLOURS).cycle()) {
            write!(f, "<polyline class=\"c{colour}\" points=\"")?;
            for (x, y) in &line.points {
                let (x, y) = (percent(*x, right), 100.0 - percent(*y, up));
                write!(f, "{x:.2},{y:.2} ")?;
            }
            writeln!(f, "\"/>")?;
        }
        f.write_str("</svg>\n")
    }
}

/// Round values from zero to the largest: in steps of 1, 2 or 5 times a power of ten.
fn ticks(largest: f64) -> impl Iterator<Item = f64> {
    let rough = largest / STEPS;
    let power = 10f64.powf(rough.max(f64::MIN_POSITIVE).log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|factor| factor * power)
        .find(|step| *step >= rough)
        .unwrap_or(10.0 * power);
    let count = if largest > 0.0 {
        (largest / step) as u32
    } else {
        0
    };
    // Rounded, so that 3 × 0.1 is written as 0.3.
    (0..=count).map(move |at| (f64::from(at) * step * 1e6).round() / 1e6)
}
