//! What is wrong with a configuration: where, what, and what is expected.

use super::line;

/// What is wrong with a configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file can't be read.
    #[error("can't read {file}: {error}; name a file that you may read")]
    Unreadable {
        /// Its name.
        file: String,
        /// Why.
        error: std::io::Error,
    },
    /// It is not TOML, or has a key that does not exist, or a value of another type.
    #[error("{file}:{line}: {what}")]
    Malformed {
        /// Its name.
        file: String,
        /// The line, from 1.
        line: usize,
        /// What is wrong, and what was expected.
        what: String,
    },
    /// A value that can't be.
    #[error("{file}:{line}: {key} = {value}: {remedy}")]
    Wrong {
        /// The file's name.
        file: String,
        /// The line, from 1.
        line: usize,
        /// The key with its tables, as in `pools.app.retries`.
        key: String,
        /// Its value.
        value: String,
        /// What to write instead.
        remedy: String,
    },
}

impl ConfigError {
    /// Of a file as a whole, or of a table.
    pub fn at(file: &str, line: usize, what: String) -> ConfigError {
        ConfigError::Malformed {
            file: file.to_owned(),
            line,
            what,
        }
    }
}

/// What TOML's parser says, in one sentence.
pub fn malformed(file: &str, text: &str, error: &toml::de::Error) -> ConfigError {
    let line = error
        .span()
        .map_or(1, |span| line::of_byte(text, span.start));
    let message = error.message().trim_end().replace('\n', "; ");
    let (what, expected) = message
        .split_once(", expected ")
        .unwrap_or((message.as_str(), ""));
    let what = what
        .replacen("unknown field", "unknown key", 1)
        .replacen("unknown variant", "unknown value", 1)
        .replacen("missing field", "missing key", 1)
        .replacen("invalid value: string", "wrong value", 1)
        .replacen("invalid value:", "wrong value:", 1)
        .replacen("invalid type:", "wrong type:", 1);
    let source = match text.lines().nth(line - 1).map_or("", str::trim) {
        "" => "the file",
        source => source,
    };
    let expected = match expected {
        "a sequence" => "an array, as in [\"10.9.0.2:80\"]",
        "a map" => "a table",
        "a boolean" => "true or false",
        "u32" => "a number from 0 to 4294967295",
        "u16" => "a number from 0 to 65535",
        expected => expected,
    };
    let names_it = what.starts_with("unknown") || what.starts_with("wrong");
    let what = match (expected, names_it) {
        (expected, true) => format!("{what}; use {expected}"),
        ("", false) => format!("`{source}`: {what}"),
        (expected, false) => format!("`{source}`: {what}; expected {expected}"),
    };
    ConfigError::at(file, line, what)
}
