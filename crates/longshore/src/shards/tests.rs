//! Threads that are late, and such as end.

use std::sync::Barrier;

use host::runtime::Builder;
use port::memory::{LinkConfig, link};

use super::*;

/// Has nothing to do.
pub(crate) struct Idle;

impl Shard for Idle {
    fn poll(&mut self, _now: Instant, _attached: &mut Attached) -> Result<bool> {
        Ok(false)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        None
    }
}

/// A thread that does what it is given when a test says so.
fn one() -> (Threads<Idle>, Arc<ThreadStatus>, Receiver<Errand<Idle>>) {
    let told = Arc::new(ThreadStatus::default());
    let (errands, inbox) = mpsc::channel();
    let running = Running {
        worker: 1,
        bell: Doorbell::new().expect("a descriptor is left"),
        told: Arc::clone(&told),
        given: 0,
        overdue: 0,
        awaited: 0,
        due: 0,
        errands: Some(errands),
        thread: None,
    };
    (Threads(vec![running]), told, inbox)
}

#[test]
fn who_was_given_something_just_now_goes_on_and_who_does_nothing_does_not() {
    let (mut threads, told, inbox) = one();
    for _ in 0..5 {
        assert!(threads.go_on());
        // It does all that it has, and is given more before this is asked again.
        told.done
            .fetch_add(inbox.try_iter().count() as u64, Ordering::Release);
        threads.tell_each(|_, _| ());
    }
    assert!(threads.go_on());
    assert!(!threads.go_on());
    assert!(!threads.go_on());
    told.done
        .fetch_add(inbox.try_iter().count() as u64, Ordering::Release);
    assert!(threads.go_on());
}

#[test]
fn who_is_far_behind_is_given_no_more_news() {
    let (mut threads, told, inbox) = one();
    for _ in 0..2 * BACKLOG {
        threads.tell_each_in_time(|_, _| ());
    }
    assert_eq!(inbox.try_iter().count() as u64, BACKLOG);
    told.done.store(BACKLOG, Ordering::Release);
    threads.tell_each_in_time(|_, _| ());
    assert_eq!(inbox.try_iter().count(), 1);
}

/// A stack that receives nothing.
pub(crate) fn attached() -> Attached {
    let (port, other) = link(LinkConfig::for_mtu(1500));
    // The port would fail without it.
    std::mem::forget(other);
    let mut builder = Builder::new(["10.0.0.1/24".parse().unwrap()]).unwrap();
    builder.stack.memory = 32 << 20;
    builder.runtime.own_thread = false;
    Attached {
        runtime: builder.on_port(port).unwrap(),
        tap: None,
        addresses: Vec::new(),
        key_log: None,
        estate: None,
    }
}

/// So many threads that have nothing to do.
fn threads(count: usize) -> Threads<Idle> {
    let shards = (0..count).map(|_| (Idle, attached()));
    let bell = Doorbell::new().unwrap();
    Threads::start("test", shards.collect(), &Cores::Count(1), &bell).unwrap()
}

/// Ends at once what it is told to end, or fails.
#[derive(Default)]
pub(crate) struct Ending {
    is_told: bool,
    is_done: bool,
    pub(crate) fails: bool,
}

impl Shard for Ending {
    fn poll(&mut self, _now: Instant, _attached: &mut Attached) -> Result<bool> {
        anyhow::ensure!(!self.fails, "it was told to fail");
        self.is_done = self.is_told;
        Ok(false)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        None
    }

    fn is_done(&self) -> bool {
        self.is_done
    }
}

pub(crate) fn endings(count: usize) -> Threads<Ending> {
    let shards = (0..count).map(|_| (Ending::default(), attached()));
    let bell = Doorbell::new().unwrap();
    Threads::start("test", shards.collect(), &Cores::Count(1), &bell).unwrap()
}

fn end(threads: &mut Threads<Ending>) {
    threads.tell_each(|shard, _| (shard.is_told, shard.is_done) = (true, false));
}

fn eventually(mut holds: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(10);
    while !holds() {
        assert!(Instant::now() < until, "it does not come");
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn who_has_not_heard_that_it_is_to_end_has_not_ended() {
    let mut threads = endings(2);
    end(&mut threads);
    eventually(|| threads.unfinished().is_none());
    // It was done with something before, and hears late what comes next.
    let gate = Arc::new(Barrier::new(2));
    let shut = Arc::clone(&gate);
    threads.0[1].give(Box::new(move |_, _| _ = shut.wait()));
    end(&mut threads);
    eventually(|| threads.unfinished() == Some(2));
    thread::sleep(Duration::from_millis(50));
    assert_eq!(threads.unfinished(), Some(2));
    gate.wait();
    eventually(|| threads.unfinished().is_none());
    threads.stop().unwrap();
}

#[test]
fn a_thread_that_is_late_cuts_no_other_short() {
    let mut threads = endings(2);
    let gate = Arc::new(Barrier::new(2));
    let shut = Arc::clone(&gate);
    threads.0[0].give(Box::new(move |_, _| _ = shut.wait()));
    // Nothing more is asked of a thread that has been late.
    assert!(threads.with_each(|_, _| ()).is_err());
    end(&mut threads);
    let opens = thread::spawn(move || {
        thread::sleep(Duration::from_millis(200));
        gate.wait();
    });
    let mut own = Ending {
        is_told: true,
        ..Ending::default()
    };
    let began = Instant::now();
    let limit = Duration::from_secs(10);
    let ended = threads.run_until_done(&mut own, &mut attached(), limit);
    ended.unwrap();
    let took = began.elapsed();
    assert!(
        (Duration::from_millis(150)..limit).contains(&took),
        "{took:?}"
    );
    assert_eq!(threads.unfinished(), None);
    opens.join().unwrap();
    threads.stop().unwrap();
}

#[test]
fn all_end_though_one_has_failed_and_one_has_panicked() {
    let mut threads = endings(3);
    threads.0[0].give(Box::new(|shard, _| shard.fails = true));
    threads.0[1].give(Box::new(|_, _| panic!("it was told to")));
    end(&mut threads);
    // Those that have ended are not waited for.
    eventually(|| threads.unfinished().is_none());
    let told = threads.stop().unwrap_err().to_string();
    assert_eq!(told, "it was told to fail");
    let ended = |it: &Running<Ending>| it.told.has_ended.load(Ordering::Acquire);
    assert!(threads.0.iter().all(ended));
}

#[test]
fn who_does_not_answer_is_named_and_is_not_waited_for_again() {
    let mut threads = threads(2);
    assert_eq!(threads.with_each(|_, _| 7).unwrap(), [7, 7]);
    let gate = Arc::new(Barrier::new(2));
    let shut = Arc::clone(&gate);
    threads.0[1].give(Box::new(move |_, _| _ = shut.wait()));
    let told = threads.with_each(|_, _| ()).unwrap_err().to_string();
    assert_eq!(told, "worker 2 does not answer within 2 s");
    let given = threads.0[1].given;
    assert!(threads.with_each(|_, _| ()).is_err());
    assert_eq!(threads.0[1].given, given, "it was asked again");
    assert!(threads.go_on());
    assert!(!threads.go_on());

    gate.wait();
    while !threads.go_on() {
        thread::yield_now();
    }
    assert_eq!(threads.with_each(|_, _| ()).unwrap().len(), 2);
    threads.stop().unwrap();
}

/// However many they are: all have the same time.
#[test]
fn those_that_do_not_end_are_left_behind() {
    let mut threads = threads(3);
    let gate = Arc::new(Barrier::new(3));
    for running in &mut threads.0[..2] {
        let shut = Arc::clone(&gate);
        running.give(Box::new(move |_, _| _ = shut.wait()));
    }
    let began = Instant::now();
    let told = threads.stop().unwrap_err().to_string();
    assert_eq!(
        told,
        "worker 1 does not answer within 2 s; it is left behind"
    );
    assert!(began.elapsed() < PATIENCE * 3 / 2);
    gate.wait();
}
