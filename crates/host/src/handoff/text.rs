//! Settings as text.

use std::fmt;
use std::str::FromStr;

use super::Handoff;
use super::policy::{Selection, UnknownSelection};

impl fmt::Display for Handoff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.selection)?;
        for (port, selection) in &self.per_port {
            write!(f, ",{port}={selection}")?;
        }
        Ok(())
    }
}

/// A text that does not say what is to be handed off.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HandoffError {
    /// There is no such policy.
    #[error(transparent)]
    Selection(#[from] UnknownSelection),
    /// Before a `=` there is no port.
    #[error("`{0}` is no port; write a number from 1 to 65535 before the policy, as in 443=t4")]
    Port(String),
    /// A second policy for the same connections.
    #[error("there are two policies for {}; give one", of(*.0))]
    Twice(Option<u16>),
}

fn of(port: Option<u16>) -> String {
    port.map_or("all ports".to_owned(), |port| format!("port {port}"))
}

impl FromStr for Handoff {
    type Err = HandoffError;

    fn from_str(text: &str) -> Result<Self, HandoffError> {
        let mut all = None;
        let mut per_port: Vec<(u16, Selection)> = Vec::new();
        for part in text.split(',').map(str::trim) {
            let Some((port, selection)) = part.split_once('=') else {
                if all.replace(part.parse()?).is_some() {
                    return Err(HandoffError::Twice(None));
                }
                continue;
            };
            let port = port.trim();
            let number = port.parse().ok().filter(|&number| number > 0);
            let number = number.ok_or_else(|| HandoffError::Port(port.to_owned()))?;
            if per_port.iter().any(|(other, _)| *other == number) {
                return Err(HandoffError::Twice(Some(number)));
            }
            per_port.push((number, selection.trim().parse()?));
        }
        Ok(Self {
            selection: all.unwrap_or_default(),
            per_port,
        })
    }
}

#[cfg(test)]
mod tests;
