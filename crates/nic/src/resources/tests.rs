use std::sync::mpsc::Receiver;

use l5p::{Listed, pattern};

use super::*;

const TOTAL: usize = 1 << 20;
const LARGE: usize = 700_000;

/// A function's resources, and a maker whose part the test has.
struct Rig {
    resources: Resources,
    maker: Maker,
    jobs: Receiver<Job>,
}

impl Rig {
    fn new() -> Rig {
        let (sender, jobs) = channel();
        Rig {
            resources: Resources::new(TOTAL),
            maker: Maker(Some(sender)),
            jobs,
        }
    }

    fn load(&mut self, id: u16) {
        assert_eq!(self.try_load(id), Ok(()));
    }

    fn try_load(&mut self, id: u16) -> Result<(), ErrorCode> {
        let protocol = pattern::Parameters::ID;
        let read = || Ok(vec![b'x']);
        let resources = &mut self.resources;
        resources.load(&mut self.maker, ResourceId(id), protocol, read)
    }

    fn unload(&mut self, id: u16) {
        assert_eq!(self.resources.unload(ResourceId(id)), Ok(()));
    }

    /// What is to be made next.
    fn job(&mut self) -> Option<Job> {
        self.resources.make_next(&mut self.maker);
        self.jobs.try_recv().ok()
    }

    /// Makes it of this.
    fn make(&mut self, used: &Arc<u8>) {
        let job = self.job().expect("something to be made");
        let resource = Resource::new(Arc::clone(used), LARGE);
        job.made.set(Some(resource)).expect("it was not made");
        drop(job);
        self.resources.settle(|_, _| {});
    }
}

#[test]
fn what_contexts_still_have_counts_when_it_was_given_up() {
    let mut rig = Rig::new();
    let context = Arc::new(0);
    rig.load(0);
    rig.make(&context);
    rig.unload(0);
    rig.load(1);
    let job = rig.job().expect("something to be made");
    assert_eq!(job.limit, TOTAL - LARGE);
    job.made.set(None).expect("it was not made");
    drop(job);
    rig.resources.settle(|_, _| {});
    drop(context);
    rig.load(2);
    assert_eq!(rig.job().expect("something to be made").limit, TOTAL);
}

#[test]
fn resources_that_are_given_up_and_in_use_are_not_too_many() {
    let mut rig = Rig::new();
    rig.resources = Resources::new(1 << 30);
    let mut contexts = Vec::new();
    for _ in 0..MAX_RETIRED {
        let context = Arc::new(0);
        rig.load(0);
        rig.make(&context);
        rig.unload(0);
        contexts.push(context);
    }
    assert_eq!(rig.try_load(0), Err(ErrorCode::OverQuota));
    contexts.pop();
    rig.load(0);
}

/// Neither by giving it up nor by a reset.
#[test]
fn a_host_has_no_more_than_one_resource_made_at_a_time() {
    let mut rig = Rig::new();
    rig.load(0);
    let given_up = rig.job().expect("something to be made");
    rig.unload(0);
    rig.load(1);
    assert!(rig.job().is_none());
    rig.resources.clear();
    rig.load(1);
    assert!(rig.job().is_none());
    assert_eq!(
        Arc::strong_count(&given_up.made),
        1,
        "it is made for nothing"
    );
    drop(given_up);
    assert_eq!(rig.job().expect("something to be made").limit, TOTAL);
}
