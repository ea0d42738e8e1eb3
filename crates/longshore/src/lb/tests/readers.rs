//! Clients that read are served, however others use the memory.

use std::time::Duration;

use proptest::prelude::*;
use sim::WorldConfig;

use super::rig::{Manner, Rig, answers, config, content};

const HEALTH: &str =
    "health = { path = \"/n/1\", interval = \"100ms\", time-out = \"1s\", fall = 1 }";

/// A client, by how it reads.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Reader {
    Fast,
    /// So many bytes a second.
    Slow(usize),
    /// It is gone once it has asked.
    Vanished,
    /// It is there, and reads next to nothing.
    Mute,
    /// It never ends its request.
    Idle,
}

fn reader() -> impl Strategy<Value = Reader> {
    prop_oneof![
        Just(Reader::Fast),
        (10_000usize..100_000).prop_map(Reader::Slow),
        Just(Reader::Vanished),
        Just(Reader::Mute),
        Just(Reader::Idle),
    ]
}

struct Client {
    reader: Reader,
    at: usize,
    len: usize,
    is_served: bool,
}

impl Client {
    fn new(rig: &mut Rig, reader: Reader, len: usize) -> Self {
        let end = if reader == Reader::Idle { "" } else { "\r\n" };
        let get = format!("GET /n/{len} HTTP/1.1\r\nHost: h\r\n{end}");
        let at = rig.client(80, get);
        rig.clients[at].pace = match reader {
            Reader::Slow(pace) => Some(pace),
            Reader::Mute => Some(10),
            Reader::Fast | Reader::Vanished | Reader::Idle => None,
        };
        Self {
            reader,
            at,
            len,
            is_served: !matches!(reader, Reader::Fast | Reader::Slow(_)),
        }
    }

    /// Looks what it has got. One that is told to try again later does so; says whether that was so.
    fn look(&mut self, rig: &mut Rig) -> Result<bool, TestCaseError> {
        let peer = &rig.clients[self.at];
        let answer = answers(&peer.input).pop();
        prop_assert!(answer.is_some() || !peer.is_over(), "{:?}", self.reader);
        match answer {
            None => {}
            Some(answer) if answer.status == 503 => {
                *self = Self::new(rig, self.reader, self.len);
                return Ok(true);
            }
            Some(answer) => {
                prop_assert_eq!(answer.status, 200);
                prop_assert!(answer.content == content(self.len));
                self.is_served = true;
            }
        }
        Ok(false)
    }
}

/// What a client may take, once it is admitted.
const LONGEST: Duration = Duration::from_secs(120);

proptest! {
    #![proptest_config(ProptestConfig::with_cases(6))]

    #[test]
    fn clients_that_read_are_served_and_no_server_is_taken_down(
        readers in prop::collection::vec((reader(), 20_000usize..600_000), 40..120),
        workers in 1u16..4,
    ) {
        let mut settings = WorldConfig { workers, ..WorldConfig::default() };
        settings.nodes[0].stack.memory = 26 << 20;
        let servers = [(8081, Manner::Serves), (8082, Manner::Serves)];
        let mut rig = Rig::in_world(&config("", HEALTH, &[8081, 8082]), &servers, settings, 1 << 20);
        let mut clients: Vec<_> = readers
            .into_iter()
            .map(|(reader, len)| Client::new(&mut rig, reader, len))
            .collect();
        rig.run_for(Duration::from_millis(2));
        for client in clients.iter().filter(|it| it.reader == Reader::Vanished) {
            rig.vanish(client.at);
        }
        // The slowest takes a minute for the longest response, from when it is admitted.
        let (mut end, latest) = (rig.world.now() + LONGEST, rig.world.now() + 5 * LONGEST);
        while clients.iter().any(|it| !it.is_served) {
            rig.run_for(Duration::from_millis(500));
            for client in clients.iter_mut().filter(|it| !it.is_served) {
                if client.look(&mut rig)? {
                    end = latest.min(rig.world.now() + LONGEST);
                }
            }
            let mut servers = rig.pools().flat_map(|pool| &pool.servers);
            prop_assert!(servers.all(|server| server.health.is_up()));
            let lacking = clients.iter().filter(|it| !it.is_served).map(|it| (it.reader, it.len));
            let memory = rig.world.stack_ref(0).memory();
            prop_assert!(rig.world.now() < end, "{:?} {:?}", lacking.collect::<Vec<_>>(), memory);
        }
        let servers = rig.pools().flat_map(|pool| &pool.servers);
        let failures: u64 = servers.map(|server| server.counters.check_failures).sum();
        prop_assert_eq!(failures, 0);
    }
}
