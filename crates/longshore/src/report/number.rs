//! Numbers with three significant digits.

/// Digits behind the point at most.
const DECIMALS: i32 = 3;

/// A number with three significant digits, never in scientific notation; whole from 100 on.
pub fn significant(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    if !value.is_finite() {
        return if value > 0.0 { "∞" } else { "–" }.to_owned();
    }
    if value.abs() < 0.5 * 10f64.powi(-DECIMALS) {
        return format!("<{:.*}", DECIMALS as usize, 10f64.powi(-DECIMALS));
    }
    // Rounded first, so that 9.999 is 10.0 and not 10.00.
    let rounded = format!("{value:.2e}");
    let exponent = rounded.split_once('e').and_then(|(_, e)| e.parse().ok());
    let decimals = (2 - exponent.unwrap_or(0)).clamp(0, DECIMALS);
    format!("{value:.*}", decimals as usize)
}

/// Bytes in the largest binary unit of which there is at least one: `64 MiB`, `1.5 KiB`, `12 bytes`.
pub fn bytes(bytes: u64) -> String {
    let (divisor, unit) = binary(bytes as f64);
    if unit.is_empty() {
        return format!("{bytes} byte{}", if bytes == 1 { "" } else { "s" });
    }
    let value = bytes as f64 / divisor;
    if value.fract() == 0.0 {
        format!("{value:.0} {unit}")
    } else {
        format!("{} {unit}", significant(value))
    }
}

/// A number of three significant digits with a decimal prefix from a thousand on: `950`, `1.25k`, `10.3G`.
pub fn prefixed(value: f64) -> String {
    let (divisor, prefix) = decimal(value, 1e3);
    significant(value / divisor) + prefix
}

/// What to divide bytes by, and what they are then.
pub(super) fn binary(largest: f64) -> (f64, &'static str) {
    let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
    units
        .into_iter()
        .map(|(power, unit)| (f64::from(1u32 << power), unit))
        .find(|(size, _)| largest >= *size)
        .unwrap_or((1.0, ""))
}

/// What to divide a count by, and the prefix that it has then, once it has reached `from`.
pub(super) fn decimal(largest: f64, from: f64) -> (f64, &'static str) {
    if largest < from {
        return (1.0, "");
    }
    [(1e9, "G"), (1e6, "M"), (1e3, "k")]
        .into_iter()
        .find(|(size, _)| largest >= *size)
        .unwrap_or((1.0, ""))
}
