//! A file's tables as options of the command line.

use std::error::Error;
use std::ffi::OsString;
use std::path::Path;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgAction, Id};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::{ConfigError, SERVICES, Service, description, line, malformed, parse};

/// Tables and keys beside those of services: the load balancer's, which [`crate::lb::config`] reads.
pub const OF_LB: [&str; 3] = ["frontends", "pools", "shutdown-time"];
/// Options that are for the command line alone. A service manager awaits the service in the process that it starts, not in the background.
const NOT_IN_FILES: [&str; 6] = [
    "background",
    "config",
    "help",
    "log",
    "take-over",
    "version",
];

/// A file that was read.
#[derive(Debug)]
pub struct File {
    pub name: String,
    pub text: String,
}

/// A key with its value.
#[derive(Debug)]
pub struct Setting {
    /// Of the option.
    pub id: Id,
    /// The same on the command line.
    pub arguments: Vec<OsString>,
    /// The value as it is written.
    pub source: String,
}

impl File {
    /// Reads a file.
    ///
    /// # Errors
    /// It can't be read.
    pub fn read(path: &Path) -> Result<File, ConfigError> {
        Ok(File {
            name: path.display().to_string(),
            text: super::read(path)?,
        })
    }

    /// The tables, of which each is known.
    pub fn tables(&self) -> Result<DeTable<'_>, ConfigError> {
        let tables = DeTable::parse(&self.text)
            .map_err(|error| malformed(&self.name, &self.text, &error))?
            .into_inner();
        let known = || SERVICES.iter().map(|service| service.table).chain(OF_LB);
        for (name, _) in &tables {
            if !known().any(|known| known == name.get_ref()) {
                let tables = known().collect::<Vec<_>>().join(", ");
                let what = format!("unknown key `{}`; use one of {tables}", name.get_ref());
                return Err(self.wrong_at(name.span().start, what));
            }
        }
        Ok(tables)
    }

    /// The options that a service is given. The load balancer may have none.
    ///
    /// # Errors
    /// The first key or value that is wrong, or that there is no table of the service.
    pub fn settings(&self, service: &Service) -> Result<Vec<Setting>, ConfigError> {
        let tables = self.tables()?;
        let table = service.table;
        let Some(value) = tables.get(table) else {
            return match OF_LB.iter().any(|own| tables.contains_key(*own)) && table == "lb" {
                true => Ok(Vec::new()),
                false => Err(self.wrong_at(0, format!("there is no table [{table}]"))),
            };
        };
        let DeValue::Table(options) = value.get_ref() else {
            let what = format!("`{table}` is no table; write [{table}], and options below it");
            return Err(self.wrong_at(value.span().start, what));
        };
        let command = description(service);
        options
            .iter()
            .map(|(key, value)| self.setting(table, &command, key, value))
            .collect()
    }

    fn setting(
        &self,
        table: &str,
        command: &clap::Command,
        key: &Spanned<std::borrow::Cow<'_, str>>,
        value: &Spanned<DeValue<'_>>,
    ) -> Result<Setting, ConfigError> {
        let name = key.get_ref();
        let Some(arg) = options(command).find(|arg| name_of(arg) == name) else {
            let what = format!(
                "unknown key `{name}` in [{table}]; use {}",
                instead_of(command, name)
            );
            return Err(self.wrong_at(key.span().start, what));
        };
        let source = self.text.get(value.span()).unwrap_or_default();
        let wrong = |remedy: String| ConfigError::Wrong {
            file: self.name.clone(),
            line: line::of_byte(&self.text, value.span().start),
            key: format!("{table}.{name}"),
            value: source.to_owned(),
            remedy,
        };
        let arguments =
            arguments(arg, value.get_ref()).map_err(|remedy| wrong(remedy.to_owned()))?;
        if let Err(error) = parse(command, &arguments)
            && let Some(remedy) = remedy(&error)
        {
            return Err(wrong(remedy));
        }
        Ok(Setting {
            id: arg.get_id().clone(),
            arguments,
            source: source.to_owned(),
        })
    }

    /// An error at this byte.
    pub fn wrong_at(&self, byte: usize, what: String) -> ConfigError {
        ConfigError::at(&self.name, line::of_byte(&self.text, byte), what)
    }
}

/// The options that a file may have.
pub fn options(command: &clap::Command) -> impl Iterator<Item = &Arg> {
    command
        .get_arguments()
        .filter(|arg| !arg.is_hide_set() && !NOT_IN_FILES.contains(&name_of(arg)))
}

/// The key of an option.
pub fn name_of(arg: &Arg) -> &str {
    arg.get_long().unwrap_or(arg.get_id().as_str())
}

/// What was meant by an unknown key.
fn instead_of(command: &clap::Command, name: &str) -> String {
    if NOT_IN_FILES.contains(&name) {
        return format!("--{name} on the command line");
    }
    let unknown = OsString::from(format!("--{name}"));
    let suggested = parse(command, [&unknown]).err().and_then(|error| {
        match error.get(ContextKind::SuggestedArg) {
            Some(ContextValue::String(option)) => option.strip_prefix("--").map(str::to_owned),
            _ => None,
        }
    });
    match suggested {
        Some(key) => format!("`{key}`"),
        None => "the name of an option without its dashes".to_owned(),
    }
}

/// A value as it is written on the command line; or what is expected.
fn arguments(arg: &Arg, value: &DeValue<'_>) -> Result<Vec<OsString>, &'static str> {
    let name = name_of(arg);
    if !arg.get_action().takes_values() {
        return match value {
            DeValue::Boolean(true) => Ok(vec![format!("--{name}").into()]),
            DeValue::Boolean(false) => Ok(Vec::new()),
            _ => Err("use true or false"),
        };
    }
    let written = |word: String| match arg.is_positional() {
        // It would be an option.
        true if word.starts_with('-') => Err("use a value that does not begin with a dash"),
        true => Ok(OsString::from(word)),
        false => Ok(OsString::from(format!("--{name}={word}"))),
    };
    let is_list =
        matches!(arg.get_action(), ArgAction::Append) || arg.get_value_delimiter().is_some();
    match value {
        DeValue::Array(values) if is_list => {
            let words = values.iter().map(|value| word(value.get_ref()));
            words
                .map(|word| word.ok_or("use an array of strings").and_then(written))
                .collect()
        }
        value => match word(value) {
            Some(word) => written(word).map(|word| vec![word]),
            None if is_list => Err("use a string, or an array of them"),
            None => Err("use a string or a number"),
        },
    }
}

fn word(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Integer(number) => i128::from_str_radix(number.as_str(), number.radix())
            .ok()
            .map(|number| number.to_string()),
        DeValue::Float(number) => Some(number.as_str().to_owned()),
        _ => None,
    }
}

/// What is wrong with a value, unless it is what other options are missing or conflict.
fn remedy(error: &clap::Error) -> Option<String> {
    match error.kind() {
        ErrorKind::MissingRequiredArgument
        | ErrorKind::ArgumentConflict
        | ErrorKind::MissingSubcommand
        | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => None,
        ErrorKind::InvalidValue => match error.get(ContextKind::ValidValue) {
            Some(ContextValue::Strings(valid)) if !valid.is_empty() => {
                Some(format!("use one of {}", valid.join(", ")))
            }
            _ => Some("use another value".to_owned()),
        },
        _ => Some(
            error
                .source()
                .map_or_else(|| summary(error), ToString::to_string),
        ),
    }
}

/// What clap says, without the usage, on a line.
pub fn summary(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let text = text.split("\n\n").next().unwrap_or_default();
    let words: Vec<&str> = text.split_whitespace().collect();
    let text = words.join(" ");
    text.strip_prefix("error: ").unwrap_or(&text).to_owned()
}
