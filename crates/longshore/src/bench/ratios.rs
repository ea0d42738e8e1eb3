//! Modes against each other.

use serde::{Serialize, Serializer};

use super::case::{Case, Mode, over};
use super::printed::{ratios_table, times};
use crate::report::Table;

/// What a host core does, first over second.
#[derive(Clone, Debug, Default)]
pub struct Ratios(Vec<Ratio>);

#[derive(Clone, Debug)]
struct Ratio {
    /// As JSON names it.
    key: &'static str,
    /// What is compared.
    label: String,
    /// `None` where a mode was not measured.
    value: Option<f64>,
}

impl Ratios {
    /// With one more; it is left out where a mode was not measured.
    pub fn with(mut self, key: &'static str, label: &'static str, value: Option<f64>) -> Self {
        let label = label.to_owned();
        self.0.push(Ratio { key, label, value });
        self
    }

    /// Modes against each other, each under its key in JSON. Modes of ours that are missing have a ratio of 0.
    pub fn between<M: Mode, C>(
        cases: &[Case<M, C>],
        modes: impl IntoIterator<Item = (&'static str, M, M)>,
    ) -> Self {
        let ratio = |(key, first, second): (_, M, M)| {
            let value = over(cases, first, second);
            let is_ours = first.is_ours() && second.is_ours();
            Ratio {
                key,
                label: first.over_label(&second),
                value: value.or(is_ours.then_some(0.0)),
            }
        };
        Self(modes.into_iter().map(ratio).collect())
    }

    /// Whether nothing is compared.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// One of them, as JSON names it.
    pub fn get(&self, key: &str) -> Option<f64> {
        self.0.iter().find(|ratio| ratio.key == key)?.value
    }

    /// The same in a sentence: `5.4 times`.
    pub fn times(&self, key: &str) -> String {
        times(self.get(key).unwrap_or(0.0))
    }

    /// All of them.
    pub fn table(&self) -> Table {
        ratios_table(self.0.iter().map(|ratio| (&ratio.label[..], ratio.value)))
    }
}

impl Serialize for Ratios {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let measured = self
            .0
            .iter()
            .filter_map(|ratio| Some((ratio.key, ratio.value?)));
        serializer.collect_map(measured)
    }
}
