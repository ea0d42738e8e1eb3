//! Stores that answer in any order, memory that comes late: what hosts read is what they wrote.

use proptest::prelude::*;
use wire::nvme::Pdu;
use wire::nvme::command::{Blocks, CompletionEntry, DataPointer, Io};

use super::rig::*;

const QUEUES: u16 = 3;
/// Each command has blocks of its own, so that the outcome does not depend on the order.
const REGION: u64 = 32;

#[derive(Clone, Copy, Debug)]
struct Job {
    queue: u16,
    blocks: u32,
    /// The data goes in the capsule if it fits.
    in_capsule: bool,
}

fn jobs() -> impl Strategy<Value = Vec<Job>> {
    let job =
        (0..QUEUES, 1..=REGION as u32, any::<bool>()).prop_map(|(queue, blocks, in_capsule)| Job {
            queue,
            blocks,
            in_capsule,
        });
    proptest::collection::vec(job, 1..60)
}

/// Takes one of `values`, as `choice` has it.
fn take<T>(values: &mut Vec<T>, choice: usize) -> Option<T> {
    (!values.is_empty()).then(|| values.swap_remove(choice % values.len()))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn what_is_read_is_what_was_written(
        jobs in jobs(),
        choices in proptest::collection::vec(any::<usize>(), 400),
        r2t_data in prop_oneof![Just(4096u32), Just(1 << 20)],
        max_r2t in 0u32..3,
    ) {
        let mut config = config();
        config.limits.r2t_data = r2t_data;
        config.limits.c2h_data = 4096;
        let mut rig = Rig::with(config);
        let (_, controller) = rig.admin(subsystem(), 0);
        let ids: Vec<_> = (1..=QUEUES).map(|queue| rig.io_queue(controller, queue, max_r2t)).collect();
        rig.at_once = false;
        rig.has_memory = false;
        let data = |at: usize, job: &Job| pattern(job.blocks as usize * BLOCK, at as u8);
        let mut choices = choices.iter().copied().cycle();

        for phase in ["write", "read"] {
            let mut replies = vec![None; jobs.len()];
            let mut got = vec![Vec::new(); jobs.len()];
            for (at, job) in jobs.iter().enumerate() {
                let blocks = Blocks { start: at as u64 * REGION, count: job.blocks };
                let len = job.blocks * BLOCK as u32;
                let id = ids[usize::from(job.queue)];
                let pointer = DataPointer::Transport { len };
                if phase == "read" {
                    let io = Io::Read { blocks, fua: false };
                    rig.command(id, io.entry(at as u16, 1).with_data(pointer), &[]);
                } else if job.in_capsule && len <= 8192 {
                    let io = Io::Write { blocks, fua: false };
                    rig.command(id, io.entry(at as u16, 1).with_data(in_capsule(len)), &data(at, job));
                } else {
                    let io = Io::Write { blocks, fua: false };
                    rig.command(id, io.entry(at as u16, 1).with_data(pointer), &[]);
                }
            }
            let mut r2ts = Vec::new();
            loop {
                let choice = choices.next().unwrap();
                let mut idle = true;
                if choice & 1 == 0 && let Some((command, len)) = take(&mut rig.waiting, choice >> 3) {
                    rig.give(command, len);
                    rig.act();
                    idle = false;
                }
                if choice & 2 == 0 && let Some(request) = take(&mut rig.asked, choice >> 3) {
                    rig.store(request);
                    rig.act();
                    idle = false;
                }
                if choice & 4 == 0 && let Some((id, r2t)) = take(&mut r2ts, choice >> 3) {
                    let r2t: wire::nvme::R2T = r2t;
                    let at = usize::from(r2t.cccid);
                    rig.answer(id, r2t, &data(at, &jobs[at]));
                    idle = false;
                }
                for &id in &ids {
                    while let Some(received) = rig.receive(id) {
                        idle = false;
                        match received.pdu {
                            Pdu::R2T(r2t) => r2ts.push((id, r2t)),
                            Pdu::C2HData(c2h) => {
                                let to = &mut got[usize::from(c2h.cccid)];
                                prop_assert_eq!(to.len(), c2h.data_offset as usize);
                                to.extend(received.data);
                            }
                            Pdu::CapsuleResp(response) => {
                                let entry = CompletionEntry::parse(&response.cqe);
                                let to = &mut replies[usize::from(entry.cid)];
                                prop_assert_eq!(*to, None, "answered twice");
                                *to = Some(entry.status);
                            }
                            other => prop_assert!(false, "{:?}", other),
                        }
                    }
                }
                let nothing_left = rig.waiting.is_empty() && rig.asked.is_empty() && r2ts.is_empty();
                if idle && nothing_left {
                    break;
                }
            }
            for (at, job) in jobs.iter().enumerate() {
                prop_assert!(replies[at].is_some_and(|status| status.is_success()), "{}", phase);
                if phase == "read" {
                    prop_assert_eq!(&got[at], &data(at, job));
                }
            }
            prop_assert!(rig.buffers.is_empty());
        }
    }
}
