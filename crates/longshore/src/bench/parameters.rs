//! The settings of a run, as its report has them.

use serde::{Serialize, Serializer};
use serde_json::Value;

use super::cycles_per_second;
use super::settings::{Rounds, Run};
use crate::size;

/// What was asked, to run it again.
#[derive(Clone, Debug, Default)]
pub struct Parameters {
    json: Vec<(&'static str, Value)>,
    options: String,
}

impl Parameters {
    /// With an option of this value; `name` is JSON's.
    pub fn value(self, name: &'static str, value: impl Into<Value> + ToString) -> Self {
        let text = value.to_string();
        self.option(name, value, &text)
    }

    /// With an option of so many bytes.
    pub fn size(self, name: &'static str, bytes: impl Into<u64>) -> Self {
        let bytes = bytes.into();
        self.option(name, bytes, &size::short(bytes))
    }

    /// With what is no option.
    pub fn fact(mut self, name: &'static str, value: impl Into<Value>) -> Self {
        self.json.push((name, value.into()));
        self
    }

    /// With the options of all benchmarks.
    pub fn rounds(self, rounds: &Rounds) -> Self {
        self.value("rounds", rounds.count)
    }

    /// With those of all that have hosts in this process.
    pub fn run(self, run: &Run) -> Self {
        self.rounds(&run.rounds)
            .value("layout", run.layout.name())
            .fact("cycles_per_second", cycles_per_second())
    }

    /// The command line of that command.
    pub fn command(&self, command: &str) -> String {
        format!("{command}{}", self.options)
    }

    fn option(mut self, name: &'static str, value: impl Into<Value>, text: &str) -> Self {
        self.options += &format!(" --{} {text}", name.replace('_', "-"));
        self.fact(name, value)
    }
}

impl Serialize for Parameters {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.json.iter().map(|(name, value)| (name, value)))
    }
}
