//! NVMe Qualified Names on the command line (NVMe Base 2.0 §4.5).

use wire::nvme::Nqn;

use super::identity::{UUID_PREFIX, parse_uuid};

const EXAMPLE: &str = "nqn.2024-01.org.example:disk";

/// A name that keeps to the specification: `nqn.`, the month in which somebody owned a domain, that domain in reverse and, after a colon, a name
/// of theirs; or a UUID's name. What comes over the wire may be any text: not all hosts keep to it.
///
/// # Errors
/// What is wrong with it, and an example.
pub(super) fn parse(text: &str) -> Result<Nqn, String> {
    if text.len() > Nqn::MAX_LEN {
        let (len, most) = (text.len(), Nqn::MAX_LEN);
        return Err(format!(
            "an NQN has at most {most} bytes, and this has {len}"
        ));
    }
    if let Some(uuid) = text.strip_prefix(UUID_PREFIX) {
        if uuid.len() != 36 || parse_uuid(uuid).is_none() {
            return Err(format!(
                "`{uuid}` is not a UUID, as in {UUID_PREFIX}3f0c6fb0-8f2e-4a6a-9d2c-0c6a3d0f7b11"
            ));
        }
    } else if !has_form(text) {
        return Err(format!(
            "an NQN is nqn., a month, a domain in reverse and a name, as in {EXAMPLE}"
        ));
    }
    Nqn::new(text).map_err(|_| format!("an NQN has no control characters, as in {EXAMPLE}"))
}

/// `nqn.yyyy-mm.domain`, and `:name` unless it is the name of discovery.
fn has_form(text: &str) -> bool {
    let parts = text.strip_prefix("nqn.").and_then(|rest| {
        let (date, rest) = rest.split_once('.')?;
        let (year, month) = date.split_once('-')?;
        Some((year, month, rest))
    });
    let Some((year, month, rest)) = parts else {
        return false;
    };
    let number = |text: &str, len| text.len() == len && text.bytes().all(|b| b.is_ascii_digit());
    let is_month = number(month, 2) && (1..=12).contains(&month.parse::<u8>().unwrap_or(0));
    let is_label = |label: &str| {
        let is_inside = |b: u8| b.is_ascii_alphanumeric() || b == b'-';
        !label.is_empty() && label.bytes().all(is_inside)
    };
    let (domain, name) = match rest.split_once(':') {
        Some((domain, name)) => (domain, !name.is_empty()),
        None => (rest, text == Nqn::DISCOVERY.as_str()),
    };
    number(year, 4) && is_month && name && domain.split('.').all(is_label)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_specification_are_accepted() {
        for text in [
            EXAMPLE,
            "nqn.2014-08.org.nvmexpress.discovery",
            "nqn.2014-08.org.nvmexpress:uuid:3f0c6fb0-8f2e-4a6a-9d2c-0c6a3d0f7b11",
            "nqn.2016-06.io.spdk:cnode1",
            "nqn.2024-12.com.example-1:Platte:ä",
        ] {
            assert_eq!(parse(text).unwrap().as_str(), text);
        }
        let longest = format!("nqn.2024-01.org.example:{}", "x".repeat(199));
        assert!(parse(&longest).is_ok(), "{} bytes", longest.len());
    }

    #[test]
    fn other_names_are_refused_with_an_example() {
        for text in [
            "",
            "foo",
            "nqn.",
            "nqn.2024-13.org.example:a",
            "nqn.2024-00.org.example:a",
            "nqn.2024-+1.org.example:a",
            "nqn.24-01.org.example:a",
            "nqn.2024-01",
            "nqn.2024-01.:a",
            "nqn.2024-01.org..example:a",
            "nqn.2024-01.org.example",
            "nqn.2024-01.org.example:",
            "nqn.äöü-01.org:a",
            "iqn.2024-01.org.example:a",
            "nqn.2024-01.org.example:a\n",
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(EXAMPLE), "{text}: {error}");
        }
        let error = parse("nqn.2014-08.org.nvmexpress:uuid:3f0c").unwrap_err();
        assert!(error.contains("`3f0c` is not a UUID"), "{error}");
        let error = parse(&format!("nqn.2024-01.org.example:{}", "x".repeat(200))).unwrap_err();
        assert!(
            error.contains("at most 223 bytes, and this has 224"),
            "{error}"
        );
    }
}
