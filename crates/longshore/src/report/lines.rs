//! Lines over an axis, as inline SVG.

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
    /// Above the plot, and read out in place of it.
    pub title: String,
    /// Below the horizontal axis.
    pub x: String,
    /// From the first name of the legend to the last.
    pub lines: Vec<Line>,
    /// Levels to compare with, with their names; drawn across.
    pub levels: Vec<(String, f64)>,
}

const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 400.0;
const LEFT: f64 = 60.0;
const RIGHT: f64 = 90.0;
const TOP: f64 = 62.0;
const BOTTOM: f64 = 44.0;
/// Steps that an axis is cut into, at most.
const STEPS: f64 = 6.0;

/// From values to places on the page.
struct Scale {
    x: f64,
    y: f64,
}

impl Scale {
    fn x(&self, value: f64) -> f64 {
        LEFT + value * self.x
    }

    fn y(&self, value: f64) -> f64 {
        HEIGHT - BOTTOM - value * self.y
    }
}

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

impl fmt::Display for Lines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let title = Escaped(&self.title);
        writeln!(
            f,
            "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{title}\">"
        )?;
        writeln!(
            f,
            "<text x=\"0\" y=\"16\" font-weight=\"600\">{title}</text>"
        )?;
        legend::write(f, self.lines.iter().map(|line| &line.label))?;
        let (right, up) = self.largest();
        let up = up * 1.05;
        let per = |length: f64, largest: f64| if largest > 0.0 { length / largest } else { 0.0 };
        let scale = Scale {
            x: per(WIDTH - LEFT - RIGHT, right),
            y: per(HEIGHT - TOP - BOTTOM, up),
        };
        self.axes(f, &scale, right, up)?;
        for (name, level) in &self.levels {
            let y = scale.y(*level);
            writeln!(
                f,
                "<line x1=\"{LEFT}\" x2=\"{}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke-dasharray=\"5 4\" \
                 style=\"stroke:var(--soft)\"/>",
                WIDTH - RIGHT
            )?;
            writeln!(
                f,
                "<text class=\"soft\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                WIDTH - RIGHT + 6.0,
                y + 4.0,
                Escaped(name)
            )?;
        }
        for (line, colour) in self.lines.iter().zip(COLOURS.iter().cycle()) {
            write!(
                f,
                "<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.6\" points=\""
            )?;
            for (x, y) in &line.points {
                write!(f, "{:.1},{:.1} ", scale.x(*x), scale.y(*y))?;
            }
            writeln!(f, "\"/>")?;
        }
        f.write_str("</svg>\n")
    }
}

impl Lines {
    fn axes(&self, f: &mut fmt::Formatter<'_>, scale: &Scale, right: f64, up: f64) -> fmt::Result {
        for value in ticks(up) {
            let y = scale.y(value);
            writeln!(
                f,
                "<line x1=\"{LEFT}\" x2=\"{}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>",
                WIDTH - RIGHT
            )?;
            writeln!(
                f,
                "<text class=\"soft\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{value}</text>",
                LEFT - 8.0,
                y + 4.0
            )?;
        }
        for value in ticks(right) {
            writeln!(
                f,
                "<text class=\"soft\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{value}</text>",
                scale.x(value),
                HEIGHT - BOTTOM + 18.0
            )?;
        }
        writeln!(
            f,
            "<text class=\"soft\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            (LEFT + WIDTH - RIGHT) / 2.0,
            HEIGHT - 6.0,
            Escaped(&self.x)
        )
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
