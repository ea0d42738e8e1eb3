//! Many conversations of all kinds.

use std::time::Duration;

use l5p::nvme::initiator::{Access, Config};
use testkit::{Dice, written};
use wire::nvme::Digests;
use wire::nvme::command::{Io, Status};

use super::{SECOND, sum_up, written_pair};
use crate::pair::{Pair, blocks, config, read_io, write_io};
use crate::rig::{self, BLOCK, namespace};

/// Commands, damage, lost connections and time of all kinds; a line for each conversation.
#[test]
fn of_all_kinds() {
    let lines: Vec<String> = (0..40).map(conversation).collect();
    written::compare(
        env!("CARGO_MANIFEST_DIR"),
        "nvme_initiator_of_all_kinds",
        &lines,
    );
}

fn conversation(seed: u64) -> String {
    let mut dice = Dice::new(seed);
    let mut target = rig::config();
    target.limits.r2t_data = dice.of(&[4096, 65_536]);
    target.limits.h2c_data = dice.of(&[4096, 131_072]);
    target.limits.c2h_data = dice.of(&[4096, 32_768]);
    target.limits.in_capsule = dice.of(&[512, 8192]);
    let config = Config {
        io_queues: 1 + dice.below(3) as u16,
        depth: dice.of(&[2, 16]),
        digests: Digests {
            header: dice.rarely(2),
            data: dice.rarely(2),
        },
        max_r2ts: dice.of(&[1, 4]),
        max_h2c_data: dice.of(&[4096, u32::MAX]),
        outstanding: 12,
        retries: dice.below(3) as u8,
        keep_alive: dice.of(&[0, 5]) * SECOND,
        command_timeout: 6 * SECOND,
        ..config()
    };
    let mut pair = written_pair(config, target);
    let mut order = Dice::new(seed ^ 0xff);
    pair.choose_by(move |most| order.below(most as u64) as usize);
    let mut damage = Dice::new(seed ^ 0xffff);
    pair.damage = Box::new(move || damage.rarely(40));
    pair.run();
    for _ in 0..120 {
        pair.rig.at_once = dice.rarely(2);
        pair.rig.has_memory = !dice.rarely(3);
        pair.rig.store_error = dice
            .rarely(20)
            .then(|| dice.of(&[Status::WRITE_FAULT, Status::NAMESPACE_NOT_READY]));
        match dice.below(30) {
            0..=11 => submit(&mut pair, &mut dice),
            12..=24 => {
                for _ in 0..dice.below(30) {
                    pair.step();
                }
            }
            25..=26 => drop(pair.completions()),
            27 => pair.pass(Duration::from_millis(dice.below(4000))),
            28 if dice.rarely(3) => {
                let queue = dice.below(3) as u16;
                pair.cut(queue);
            }
            29 if dice.rarely(4) => pair.rig.target.remove_namespace(0, 7),
            _ => pair.rig.target.set_namespace(0, namespace(7, 1)).unwrap(),
        }
        for id in pair.completions() {
            pair.memory.remove(&id.id.index());
        }
    }
    sum_up(&mut pair);
    let lines = pair.rig.trace.take().unwrap();
    let count = |what: &str| lines.iter().filter(|line| line.contains(what)).count();
    let (said, answers, good) = (count(" < "), count(" > "), count("ends: success"));
    let (again, lost) = (count(" again"), count("host: lost"));
    let sum = written::sum_lines(&lines);
    format!("{said} PDUs, {answers} back, {good} good, {again} again, {lost} lost, {sum:016x}")
}

fn submit(pair: &mut Pair, dice: &mut Dice) {
    let len = BLOCK * dice.of(&[1, 2, 8, 16, 17, 64, 150]);
    let (start, fua) = (dice.below(3000), dice.rarely(4));
    let io = match dice.below(6) {
        0 | 1 => read_io(start, len),
        2 | 3 => write_io(start, len),
        4 => Io::Compare {
            blocks: blocks(start, len),
            fua,
        },
        _ => Io::WriteZeroes {
            blocks: blocks(start, len),
            fua,
            deallocate: fua,
        },
    };
    let submitted = pair.host.submit(Access {
        nsid: dice.of(&[1, 1, 7]),
        io,
    });
    pair.rig.note(|| format!("{io:?}: {submitted:?}"));
    if let Ok(id) = submitted {
        pair.memory
            .insert(id.index(), testkit::pattern_of(len, start as u32));
    }
}
