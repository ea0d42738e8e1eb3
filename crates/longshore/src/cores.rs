//! `--cores`: how many servers there are in a process, and on which processors each of them runs.

use std::str::FromStr;

use anyhow::{Context, Result, bail};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// What `--cores` says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cores {
    /// So many, wherever the system has them run.
    Count(u16),
    /// One on each of these processors.
    List(Vec<usize>),
}

/// Most of them: as many queues as a TAP interface may have.
const MOST: usize = 256;

impl Default for Cores {
    fn default() -> Cores {
        Cores::Count(1)
    }
}

impl Cores {
    /// How many there are.
    pub fn count(&self) -> u16 {
        match self {
            Cores::Count(count) => *count,
            Cores::List(list) => list.len() as u16,
        }
    }

    /// Has this thread run on the processor of the `nth` one from now on, if it has one.
    ///
    /// # Errors
    /// This process may not run there.
    pub fn pin(&self, nth: usize) -> Result<Pinned> {
        let Cores::List(list) = self else {
            return Ok(Pinned(None));
        };
        let core = list[nth];
        let before = sched_getaffinity(None)?;
        let mut one = CpuSet::new();
        one.set(core);
        sched_setaffinity(None, &one)
            .with_context(|| format!("this process can't run on processor {core}"))?;
        Ok(Pinned(Some([before, one])))
    }

    /// That this process may run on all of them.
    ///
    /// # Errors
    /// It may not, or the machine has no such processor.
    pub fn check(&self) -> Result<()> {
        let Cores::List(list) = self else {
            return Ok(());
        };
        let allowed = sched_getaffinity(None)?;
        if let Some(core) = list.iter().find(|core| !allowed.is_set(**core)) {
            let others = (0..CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core));
            let others: Vec<String> = others.map(|core| core.to_string()).collect();
            let others = others.join(",");
            bail!("this process may not run on processor {core}; give --cores some of {others}");
        }
        Ok(())
    }
}

/// Where a thread ran before it was pinned, and where it runs now, if it was.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pinned(Option<[CpuSet; 2]>);

impl Pinned {
    /// Does something that starts threads, which run where this one ran before and not on its processor.
    pub fn apart<R>(&self, work: impl FnOnce() -> R) -> R {
        let [before, now] = match &self.0 {
            Some(sets) => sets.each_ref().map(Some),
            None => [None, None],
        };
        // Without this they would share a processor, which is no more than slow.
        let go = |set: Option<&CpuSet>| set.map(|set| sched_setaffinity(None, set));
        let _ = go(before);
        let done = work();
        let _ = go(now);
        done
    }
}

impl FromStr for Cores {
    type Err = String;

    fn from_str(text: &str) -> Result<Cores, String> {
        let wrong = || {
            format!(
                "give a number from 1 to {MOST}, or a list of processors such as 0,1 or 2-5, each once"
            )
        };
        if let Ok(count) = text.parse::<u16>() {
            let is_right = (1..=MOST).contains(&count.into());
            return is_right.then_some(Cores::Count(count)).ok_or_else(wrong);
        }
        let mut list = Vec::new();
        for part in text.split(',').filter(|part| !part.is_empty()) {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let [first, last] = [first, last].map(|it| it.parse::<usize>().map_err(|_| wrong()));
            let (first, last) = (first?, last?);
            if first > last || last >= CpuSet::MAX_CPU {
                return Err(wrong());
            }
            list.extend(first..=last);
        }
        let is_twice = |at: usize| list[..at].contains(&list[at]);
        if list.is_empty() || list.len() > MOST || (0..list.len()).any(is_twice) {
            return Err(wrong());
        }
        Ok(Cores::List(list))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_or_a_list() {
        for (text, cores) in [
            ("1", Cores::Count(1)),
            ("16", Cores::Count(16)),
            ("0,1", Cores::List(vec![0, 1])),
            ("2-4,0", Cores::List(vec![2, 3, 4, 0])),
            ("3,", Cores::List(vec![3])),
        ] {
            assert_eq!(text.parse(), Ok(cores), "{text}");
        }
        for text in [
            "", "0", "257", "a", "1,1", "0-2,1", "3-2", "5-2,0", "-1", "0,99999",
        ] {
            assert!(text.parse::<Cores>().is_err(), "{text}");
        }
    }

    #[test]
    fn threads_of_a_pinned_thread_may_run_where_it_ran_before() {
        let affinity = || sched_getaffinity(None).unwrap();
        let before = affinity();
        let core = (0..CpuSet::MAX_CPU).find(|core| before.is_set(*core));
        let cores = Cores::List(vec![core.unwrap()]);
        let thread = std::thread::spawn(move || {
            let pinned = cores.pin(0).unwrap();
            let own = affinity();
            let started = pinned.apart(|| std::thread::spawn(affinity));
            (own.count(), affinity() == own, started.join().unwrap())
        });
        assert_eq!(thread.join().unwrap(), (1, true, before));
    }

    #[test]
    fn a_processor_that_is_not_there_is_named() {
        let cores = Cores::List(vec![CpuSet::MAX_CPU - 1]);
        let error = cores.check().unwrap_err().to_string();
        assert!(error.contains("may not run on processor 1023"), "{error}");
    }
}
