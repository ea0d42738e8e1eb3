//! Sizes as they are given on a command line: `4096`, `64K`, `256M`, `1.5G`.

use crate::report;

/// Bytes from a number with an optional binary suffix: K, M, G or T, as `KiB` and so on too, in either case.
///
/// # Errors
/// What is wrong with the text, and what to give instead.
pub fn parse(text: &str) -> Result<u64, String> {
    let wrong =
        || format!("`{text}` is not a size; give bytes, or a number with K, M, G or T, as in 64M");
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let power = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kib" => 10,
        "m" | "mib" => 20,
        "g" | "gib" => 30,
        "t" | "tib" => 40,
        _ => return Err(wrong()),
    };
    if let Ok(whole) = digits.parse::<u64>() {
        let bytes = whole.checked_mul(1 << power);
        return bytes.ok_or_else(|| format!("{text} is more than 16 EiB"));
    }
    let is_plain = digits.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let bytes = digits.parse::<f64>().map_err(|_| wrong())? * (1u64 << power) as f64;
    if !is_plain || bytes.fract() != 0.0 {
        return Err(wrong());
    }
    if bytes >= u64::MAX as f64 {
        return Err(format!("{text} is more than 16 EiB"));
    }
    Ok(bytes as u64)
}

/// The same, refusing what is outside of these bounds.
///
/// # Errors
/// As [`parse`], and the bounds.
pub fn parse_between(text: &str, least: u64, most: u64) -> Result<u64, String> {
    let size = parse(text)?;
    if (least..=most).contains(&size) {
        return Ok(size);
    }
    let [size, least, most] = [size, least, most].map(report::bytes);
    Err(format!("{size} is not between {least} and {most}"))
}

/// A parser for clap of sizes within bounds.
pub fn between(
    least: u64,
    most: u64,
) -> impl Fn(&str) -> Result<u64, String> + Clone + Send + Sync {
    move |text| parse_between(text, least, most)
}

/// The same, of sizes below 4 GiB.
///
/// # Panics
/// When `most` does not fit.
pub fn between_u32(
    least: u32,
    most: u32,
) -> impl Fn(&str) -> Result<u32, String> + Clone + Send + Sync {
    move |text| {
        let size = parse_between(text, least.into(), most.into())?;
        Ok(u32::try_from(size).expect("it is at most `most`"))
    }
}

/// The shortest text that [`parse`] reads as this size.
pub fn short(bytes: u64) -> String {
    let units = [(40, "T"), (30, "G"), (20, "M"), (10, "K")];
    let whole = |(power, _): &(u32, &str)| bytes != 0 && bytes.is_multiple_of(1 << power);
    match units.into_iter().find(whole) {
        Some((power, unit)) => format!("{}{unit}", bytes >> power),
        None => bytes.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::{parse, parse_between, short};

    #[test]
    fn suffixes_are_binary_and_may_be_written_out() {
        for (text, bytes) in [
            ("0", 0),
            ("4096", 4096),
            ("64K", 64 << 10),
            ("64k", 64 << 10),
            ("256M", 256 << 20),
            ("256MiB", 256 << 20),
            ("1.5G", 3 << 29),
            ("900G", 900 << 30),
            ("2T", 2 << 40),
        ] {
            assert_eq!(parse(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn what_is_no_size_is_refused_with_an_example() {
        for text in [
            "", "M", "12X", "-1", "1e3", "1.3", "0.0001K", "4 K", "inf", "naN",
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains("as in 64M"), "{text}: {error}");
        }
        assert!(parse("99999999T").unwrap_err().contains("16 EiB"));
        assert_eq!(
            parse_between("2G", 1, 1 << 30),
            Err("2 GiB is not between 1 byte and 1 GiB".to_owned())
        );
    }

    #[test]
    fn a_size_is_written_as_it_is_read() {
        for bytes in [
            0,
            1,
            1000,
            1 << 10,
            3 << 20,
            1 << 30,
            5 << 40,
            (1 << 20) + 1,
        ] {
            assert_eq!(parse(&short(bytes)), Ok(bytes));
        }
        assert_eq!(short(256 << 20), "256M");
    }
}
