//! A target between hosts, of which some behave badly.

use std::net::SocketAddr;
use std::time::Duration;

use l5p::nvme::initiator::Access;
use l5p::nvme::target::Limits;
use wire::nvme::command::{Io, Status};

use crate::nvme_target::world::{PORT, Setup, World, blocks, shared_key};
use crate::pair::{CLIENT, SERVER, v4};
use host::Offload;
use host::nvme::PduOffload;
use sim::Fate;
use sim::storage::SharedKey;
use testkit::pattern;

const SECOND: Duration = Duration::from_secs(1);

impl World {
    /// All hosts are connected, with all their queues.
    fn all_ready(&mut self, queues: usize) {
        let ready = |world: &mut World| world.target.queues().count() == queues;
        assert!(self.run_until(20 * SECOND, ready));
        self.ready();
        self.run_until(SECOND, |_| false);
    }

    /// Every hog sends so many commands of 128 KiB, and takes in nothing that comes for them.
    fn hog(&mut self, commands: u64, is_write: bool) {
        self.are_deaf = true;
        let len = 128 << 10;
        let memory = [self.slice(0, len)];
        for at in 0..commands {
            let blocks = blocks(at % 64 * 32, len as usize);
            let io = match is_write {
                true => Io::Write { blocks, fua: false },
                false => Io::Read { blocks, fua: false },
            };
            for hog in &mut self.hogs {
                hog.submit(Access { nsid: 1, io }, &memory).unwrap();
            }
        }
        self.run_until(SECOND, |_| false);
    }
}

#[test]
fn hosts_that_take_in_nothing_keep_others_from_nothing() {
    for (is_write, hogs) in [(true, vec![16]), (false, vec![16]), (true, vec![8, 4, 4])] {
        let queues = hogs.iter().map(|n| usize::from(*n) + 1).sum::<usize>();
        let commands = 100 * u64::from(*hogs.last().unwrap());
        let mut world = World::new(Setup {
            hogs,
            ..Setup::default()
        });
        world.all_ready(queues + 3);
        world.hog(commands, is_write);
        let (used, all) = world.target.memory();
        assert!(used >= all / 2 && used < all, "{used} of {all}");

        let begin = world.pair.now();
        for len in [4096, 1 << 20] {
            let data = pattern(len);
            assert_eq!(world.write(5, &data, false), Status::SUCCESS);
            let (status, back) = world.read(5, len);
            assert_eq!(status, Status::SUCCESS);
            assert!(back == data, "{len} bytes");
        }
        assert!(world.pair.now() - begin < SECOND);
    }
}

#[test]
fn a_host_that_sends_no_data_for_r2ts_loses_its_queues_and_its_memory() {
    let mut world = World::new(Setup {
        hogs: vec![4],
        ..Setup::default()
    });
    world.all_ready(5 + 3);
    world.hog(100, true);
    assert!(world.target.memory().0 > 0);
    let is_free = |world: &mut World| world.target.memory().0 == 0;
    assert!(world.run_until(31 * SECOND, is_free));
    assert_eq!(world.target.counters().r2t_expired, 4);
    let (status, _) = world.read(5, 4096);
    assert_eq!(status, Status::SUCCESS);
}

/// A target that waits a second for data, and how its NIC and TLS take that.
fn impatient(offload: PduOffload, tls: Option<(SharedKey, Offload)>) -> World {
    let mut world = World::new(Setup {
        offload,
        tls,
        queues: 1,
        limits: Limits {
            r2t: SECOND,
            ..Limits::default()
        },
        ..Setup::default()
    });
    world.ready();
    world
}

/// All ways that data can take into the target's memory.
fn impatient_targets() -> Vec<World> {
    let mut worlds = vec![
        impatient(PduOffload::NONE, None),
        impatient(PduOffload::ALL, None),
    ];
    for (offload, of_tls) in [
        (PduOffload::NONE, Offload::None),
        (PduOffload::ALL, Offload::Both),
    ] {
        if let Some(key) = shared_key() {
            worlds.push(impatient(offload, Some((key, of_tls))));
        }
    }
    worlds
}

/// Whether it is of the host that writes, and full of data.
fn is_data(from: usize, frame: &[u8]) -> bool {
    from == CLIENT && frame.len() > 1000
}

#[test]
fn a_host_whose_data_comes_slowly_keeps_its_queue() {
    for mut world in impatient_targets() {
        // A PDU of 128 KiB is more than the host sends in three round trips.
        let begin = world.pair.now();
        world
            .pair
            .decide(|from, _, frame| match is_data(from, frame) {
                true => Fate::Late(400 * Duration::from_millis(1)),
                false => Fate::Pass,
            });
        let len = 128 << 10;
        for at in 0..2 {
            let blocks = blocks(at * 32, len as usize);
            world.submit(Io::Write { blocks, fua: false }, 0, len);
        }
        world.wait(2);
        assert!(
            world
                .completions
                .iter()
                .all(|done| done.status.is_success())
        );
        assert!(world.pair.now() - begin > 2 * SECOND);
        assert_eq!(world.target.counters().r2t_expired, 0);
    }
}

#[test]
fn a_host_that_sends_the_header_of_its_data_alone_loses_its_queue() {
    for mut world in impatient_targets() {
        let mut first = true;
        world.pair.decide(move |from, _, frame| {
            match is_data(from, frame) && !std::mem::take(&mut first) {
                true => Fate::Drop,
                false => Fate::Pass,
            }
        });
        let len = 128 << 10;
        let blocks = blocks(0, len as usize);
        world.submit(Io::Write { blocks, fua: false }, 0, len);
        let is_cut = |world: &mut World| world.target.counters().r2t_expired == 1;
        assert!(world.run_until(5 * SECOND, is_cut));
        assert!(world.run_until(SECOND, |world| world.target.memory().0 == 0));
    }
}

#[test]
fn idle_connections_do_not_shut_hosts_out() {
    for is_tls in [false, true] {
        let key = is_tls.then(shared_key);
        let tls = match key {
            Some(None) => return,
            key => key.flatten().map(|key| (key, Offload::Both)),
        };
        let mut world = World::new(Setup {
            tls,
            ..Setup::default()
        });
        let (now, address) = (world.pair.now(), SocketAddr::new(v4(SERVER), PORT));
        for _ in 0..100 {
            world.pair.stack(CLIENT).connect(now, address).unwrap();
        }
        world.ready();
        assert_eq!(world.write(5, &pattern(4096), false), Status::SUCCESS);
        let evicted = world.target.counters().evicted;
        let of_tls = world.target.link_counters().handshakes_evicted;
        assert!(evicted + of_tls >= 60, "{evicted}, {of_tls}");
    }
}

#[test]
fn a_queue_too_many_is_told_that_the_target_is_busy() {
    let mut world = World::new(Setup {
        limits: Limits {
            connections: 4,
            ..Limits::default()
        },
        hogs: vec![2],
        ..Setup::default()
    });
    let told = |world: &mut World| {
        let counters = world.target.counters();
        counters.busy_connects > 0 && world.target.queues().count() == 4
    };
    assert!(world.run_until(20 * SECOND, told));
    assert_eq!(world.target.link_counters().refused, 0);
}
