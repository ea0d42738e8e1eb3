//! An experiment in parts, for jobs side by side: each runs a share of all runs and writes what came of them; `merge` puts them together.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};
use sim::handoff::{Config, Outcome, paper};

use super::paper::{Report, page};
use super::runs::run_all;
use super::{Merge, Options};
use crate::bench::print;

/// What is run of the paper's configurations: each with every seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// The first one.
    pub seed: u64,
    /// How many.
    pub seeds: u32,
}

impl Plan {
    /// All runs, those of a configuration side by side.
    pub fn runs(&self) -> Vec<Config> {
        let with_seed = |config: &Config, turn| Config {
            seed: self.seed.wrapping_add(u64::from(turn)),
            ..*config
        };
        let configs = paper::configs();
        let runs = configs.iter().flat_map(|config| {
            let seeds = 0..self.seeds;
            seeds.map(move |turn| with_seed(config, turn))
        });
        runs.collect()
    }
}

/// One of several parts, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Shard {
    index: u32,
    of: u32,
}

impl Shard {
    /// Its runs, every so manieth: configurations take different times.
    fn of<T>(self, runs: Vec<T>) -> impl Iterator<Item = T> {
        let first = self.index as usize - 1;
        runs.into_iter().skip(first).step_by(self.of as usize)
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split_once('/');
        let numbers = parts.and_then(|(index, of)| Some((index.parse().ok()?, of.parse().ok()?)));
        match numbers {
            Some((index, of)) if (1..=of).contains(&index) => Ok(Self { index, of }),
            _ => Err("give a part and how many there are, as 1/8 … 8/8".to_owned()),
        }
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index, self.of)
    }
}

/// What a shard writes.
#[derive(Serialize, Deserialize)]
struct Written {
    longshore: String,
    #[serde(flatten)]
    plan: Plan,
    shard: Shard,
    /// What came of its runs, in their order.
    outcomes: Vec<Outcome>,
}

/// Runs a shard, and writes what came of it: all or nothing, so that a job that was killed leaves no file.
///
/// # Errors
/// When the file can't be written.
pub fn run(options: &Options, shard: Shard, output: &Path) -> Result<()> {
    let mut partial = output.as_os_str().to_owned();
    partial.push(".partial");
    let partial = PathBuf::from(partial);
    let failed = || {
        format!(
            "can't write {}; name another file with --output",
            partial.display()
        )
    };
    let mut file = File::create(&partial).with_context(failed)?;
    let plan = options.plan();
    let runs: Vec<Config> = shard.of(plan.runs()).collect();
    let written = Written {
        longshore: crate::cli::version().to_owned(),
        plan,
        shard,
        outcomes: run_all(&runs, false)?,
    };
    let json = serde_json::to_vec(&written)?;
    file.write_all(&json).with_context(failed)?;
    file.sync_all().with_context(failed)?;
    fs::rename(&partial, output).with_context(failed)?;
    outln!(
        "shard {shard}: {} runs, in {}",
        runs.len(),
        output.display()
    );
    Ok(())
}

/// Puts the shards of one experiment together, and prints what `--paper` does.
///
/// # Errors
/// When a file can't be read, one is missing, or they are of different experiments.
pub fn merge(options: &Merge) -> Result<()> {
    options.wanted().check()?;
    let mut shards = Vec::new();
    for path in &options.files {
        shards.push((path.as_path(), read(path)?));
    }
    let (plan, outcomes) = put_together(shards)?;
    print(options.wanted(), &Report::new(plan, &outcomes), page::page)
}

fn read(path: &Path) -> Result<Written> {
    let text = fs::read(path).with_context(|| format!("can't read {}", path.display()))?;
    serde_json::from_slice(&text).with_context(|| {
        let path = path.display();
        format!("{path} is not what `sim handoff --shard` of this version writes")
    })
}

/// All outcomes, in the order of the plan's runs.
fn put_together(shards: Vec<(&Path, Written)>) -> Result<(Plan, Vec<Outcome>)> {
    let Some((first_path, first)) = shards.first() else {
        bail!("name the files of all shards");
    };
    let same = |of: &Written| (of.longshore.clone(), of.plan, of.shard.of);
    let (wanted, plan, of, first_path) = (same(first), first.plan, first.shard.of, *first_path);
    let count = plan.runs().len();
    let mut found: BTreeMap<Shard, (&Path, Vec<Outcome>)> = BTreeMap::new();
    for (path, written) in shards {
        let (shown, shard) = (path.display(), written.shard);
        ensure!(
            same(&written) == wanted,
            "{shown} and {} differ in version, seeds or number of shards; merge shards of one experiment",
            first_path.display()
        );
        let runs = shard.of((0..count).collect::<Vec<_>>()).count();
        ensure!(
            (1..=of).contains(&shard.index) && written.outcomes.len() == runs,
            "{shown} does not have the {runs} runs of shard {shard}; run it again"
        );
        if let Some((other, _)) = found.insert(shard, (path, written.outcomes)) {
            bail!(
                "{} and {shown} are both shard {shard}; name one of them",
                other.display()
            );
        }
    }
    let missing: Vec<String> = (1..=of)
        .map(|index| Shard { index, of })
        .filter(|shard| !found.contains_key(shard))
        .map(|shard| shard.to_string())
        .collect();
    ensure!(
        missing.is_empty(),
        "shards are missing: {}; run them, then merge all",
        missing.join(", ")
    );
    let mut outcomes: Vec<(usize, Outcome)> = Vec::with_capacity(count);
    for (shard, (_, of_shard)) in found {
        outcomes.extend(shard.of((0..count).collect()).zip(of_shard));
    }
    outcomes.sort_by_key(|(at, _)| *at);
    Ok((
        plan,
        outcomes.into_iter().map(|(_, outcome)| outcome).collect(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: Plan = Plan { seed: 7, seeds: 3 };

    /// The shard with outcomes that can be told apart.
    fn written(index: u32, of: u32) -> Written {
        let shard = Shard { index, of };
        let numbers: Vec<usize> = (0..PLAN.runs().len()).collect();
        Written {
            longshore: "1".to_owned(),
            plan: PLAN,
            shard,
            outcomes: shard
                .of(numbers)
                .map(|number| Outcome {
                    requests: number as u64,
                    requests_per_second: 0.1 * number as f64,
                    ..Outcome::default()
                })
                .collect(),
        }
    }

    fn together(shards: Vec<(&str, Written)>) -> Result<Vec<u64>, String> {
        let shards = shards
            .into_iter()
            .map(|(path, written)| (Path::new(path), written))
            .collect();
        let (plan, outcomes) = put_together(shards).map_err(|error| error.to_string())?;
        assert_eq!(plan, PLAN);
        Ok(outcomes.iter().map(|outcome| outcome.requests).collect())
    }

    #[test]
    fn shards_in_any_order_make_the_whole() {
        let all: Vec<u64> = (0..PLAN.runs().len() as u64).collect();
        let three = vec![
            ("c", written(3, 3)),
            ("a", written(1, 3)),
            ("b", written(2, 3)),
        ];
        assert_eq!(together(three), Ok(all.clone()));
        let many = PLAN.runs().len() as u32 + 5;
        let names: Vec<String> = (1..=many).map(|index| index.to_string()).collect();
        let shards = names
            .iter()
            .zip(1..)
            .map(|(name, index)| (name.as_str(), written(index, many)));
        assert_eq!(together(shards.collect()), Ok(all), "some have no run");
    }

    #[test]
    fn what_makes_no_whole_is_refused_by_name() {
        let other_seed = Written {
            plan: Plan { seed: 8, ..PLAN },
            ..written(2, 2)
        };
        let mut short = written(2, 2);
        short.outcomes.pop();
        for (second, said) in [
            (written(1, 2), "one and two are both shard 1/2"),
            (written(2, 3), "two and one differ in"),
            (other_seed, "two and one differ in"),
            (short, "two does not have the"),
        ] {
            let error = together(vec![("one", written(1, 2)), ("two", second)]).unwrap_err();
            assert!(error.contains(said), "{said} in {error}");
        }
        let error = together(vec![("one", written(2, 4)), ("two", written(3, 4))]).unwrap_err();
        assert!(error.contains("missing: 1/4, 4/4;"), "{error}");
    }

    #[test]
    fn what_is_written_is_read_as_it_was() {
        let written = written(1, 2);
        let read: Written = serde_json::from_slice(&serde_json::to_vec(&written).unwrap()).unwrap();
        assert_eq!(read.outcomes, written.outcomes);
        assert_eq!((read.plan, read.shard), (written.plan, written.shard));
    }

    #[test]
    fn a_shard_is_one_of_so_many() {
        assert_eq!("8/8".parse(), Ok(Shard { index: 8, of: 8 }));
        for wrong in ["0/8", "9/8", "1", "1/0", "-1/2", "a/b", "1/2/3", ""] {
            assert!(wrong.parse::<Shard>().is_err(), "{wrong}");
        }
    }
}
