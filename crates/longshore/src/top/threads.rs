//! Threads of a process and of the processes that it started, from `/proc`.

use std::fs;

use rustix::process::Pid;

/// A thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thread {
    /// Its process.
    pub process: i32,
    /// Its number.
    pub id: i32,
    /// Its name.
    pub name: String,
    /// Nanoseconds that it has run.
    pub ran_ns: u64,
}

/// The threads of a process and of all that it started. One that ends meanwhile is left out.
pub fn threads_of(process: Pid) -> Vec<Thread> {
    let threads = family(process).into_iter().flat_map(|process| {
        let of_one = task_ids(process).into_iter();
        of_one.filter_map(move |id| thread(process, id))
    });
    threads.collect()
}

/// Bytes of memory that a process and all that it started have in RAM; shared pages count in each.
pub fn resident_bytes(process: Pid) -> u64 {
    family(process).into_iter().filter_map(resident).sum()
}

/// The process, its children, theirs, and so on.
fn family(process: Pid) -> Vec<i32> {
    let mut family = vec![process.as_raw_pid()];
    let mut at = 0;
    while let Some(&process) = family.get(at) {
        for task in task_ids(process) {
            let children = fs::read_to_string(format!("/proc/{process}/task/{task}/children"));
            for child in numbers(&children.unwrap_or_default()) {
                if !family.contains(&child) {
                    family.push(child);
                }
            }
        }
        at += 1;
    }
    family
}

fn task_ids(process: i32) -> Vec<i32> {
    let Ok(tasks) = fs::read_dir(format!("/proc/{process}/task")) else {
        return Vec::new();
    };
    let names = tasks.flatten().map(|task| task.file_name());
    let mut ids: Vec<i32> = names
        .filter_map(|name| name.to_str()?.parse().ok())
        .collect();
    ids.sort_unstable();
    ids
}

fn thread(process: i32, id: i32) -> Option<Thread> {
    let of = |file: &str| fs::read_to_string(format!("/proc/{process}/task/{id}/{file}")).ok();
    Some(Thread {
        process,
        id,
        name: of("comm")?.trim_end().to_owned(),
        // Nanoseconds that it has run, that it has waited, and how often it was scheduled.
        ran_ns: of("schedstat")?.split(' ').next()?.parse().ok()?,
    })
}

fn resident(process: i32) -> Option<u64> {
    let pages = fs::read_to_string(format!("/proc/{process}/statm")).ok()?;
    let pages: u64 = pages.split(' ').nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}

fn numbers(text: &str) -> impl Iterator<Item = i32> {
    text.split_whitespace()
        .filter_map(|number| number.parse().ok())
}

#[cfg(test)]
mod tests {
    use std::hint::black_box;

    use super::*;

    #[test]
    fn a_process_has_its_threads_and_those_of_its_children() {
        let own = rustix::process::getpid();
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let (wake, wait) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::Builder::new().name("busy one".to_owned());
        let thread = thread
            .spawn(move || {
                black_box((0..5_000_000u64).fold(0, |sum, n| sum ^ black_box(n)));
                let _ = wait.recv();
            })
            .unwrap();
        let found = loop {
            let found = threads_of(own);
            let is_named = |name: &str| found.iter().any(|thread| thread.name == name);
            if is_named("busy one") && is_named("sleep") {
                break found;
            }
        };
        let sleep = found.iter().find(|thread| thread.name == "sleep").unwrap();
        assert_eq!(sleep.process, child.id() as i32);
        assert!(found.iter().any(|thread| thread.ran_ns > 0));
        assert!(resident_bytes(own) > 1 << 20);
        drop(wake);
        thread.join().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn one_that_does_not_exist_has_none() {
        let none = Pid::from_raw(i32::MAX).unwrap();
        assert_eq!(threads_of(none), []);
        assert_eq!(resident_bytes(none), 0);
    }
}
