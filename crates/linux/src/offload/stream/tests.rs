//! What was taken is there, in order and in its place, until the peer has it.

use l5p::tls::{Algorithm, HEADER_LEN, Version};
use proptest::prelude::*;
use wire::SeqNum;
use wire::ethernet::MacAddr;

use super::{Stream, Tenants};
use crate::Config;
use crate::state::{Arena, MAX_PIECE, State, StateConfig};

const CIPHER: (Version, Algorithm) = (Version::Tls13, Algorithm::Aes128Gcm);
/// Inner content type and integrity check value.
const TRAILER: usize = 17;

/// Records with so much content each.
pub(super) fn records(contents: &[usize]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for content in contents {
        let len = content + TRAILER;
        bytes.extend([23, 3, 3, (len >> 8) as u8, len as u8]);
        let position = bytes.len();
        bytes.extend((position..position + len).map(|at| (at * 31 + at / 251) as u8));
    }
    bytes
}

#[derive(Clone, Copy, Debug)]
enum Step {
    /// So many bytes come, by themselves or in a block behind as many others.
    Come(usize, Option<u32>),
    /// The rest of a record whose header has begun.
    Finish,
    /// The peer has this share of what has come, in 256ths.
    Acknowledge(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let len = || {
        prop_oneof![
            1usize..8,
            1usize..3000,
            (MAX_PIECE as usize - 900)..(MAX_PIECE as usize - 100),
        ]
    };
    let step = prop_oneof![
        4 => len().prop_map(|len| Step::Come(len, None)),
        1 => (len(), 0u32..100).prop_map(|(len, skip)| Step::Come(len, Some(skip))),
        2 => Just(Step::Finish),
        3 => prop_oneof![0usize..257, Just(256)].prop_map(Step::Acknowledge),
    ];
    prop::collection::vec(step, 1..60)
}

struct Model {
    bytes: Vec<u8>,
    base: SeqNum,
    arena: Arena,
    stream: Stream,
    taken: usize,
    acknowledged: usize,
}

impl Model {
    fn new(bytes: Vec<u8>, base: u32) -> Model {
        let config = Config::default();
        let (host, _) = nic::ring::function(config.function(MacAddr([2, 0, 0, 0, 0, 1])));
        let state = State::in_memory(StateConfig {
            flows: 1,
            retain: 8 << 20,
        });
        let (arena, _) = Arena::new(&state.unwrap(), &host.regions).unwrap();
        let share = Tenants::default().admit(0, arena.free_bytes()).unwrap();
        Model {
            bytes,
            base: SeqNum(base),
            arena,
            stream: Stream::new((0, 1), CIPHER, SeqNum(base), 0, share),
            taken: 0,
            acknowledged: 0,
        }
    }

    fn come(&mut self, len: usize, in_block: Option<u32>) {
        let new = &self.bytes[self.taken..][..len.min(self.bytes.len() - self.taken)];
        if new.is_empty() {
            return;
        }
        let block = in_block.and_then(|skip| Some((self.arena.take_block()?, skip)));
        if let Some((block, skip)) = block {
            let at = self.arena.block(&block).offset + u64::from(skip);
            assert!(self.arena.memory().0.write(at, new));
            let left = self.stream.take_block(&mut self.arena, block, skip, new);
            match left.expect("records") {
                None => return self.taken += new.len(),
                Some(block) => self.arena.give_block(block),
            }
        }
        let taken = self.stream.append(&mut self.arena, new).expect("records");
        self.taken += taken as usize;
    }

    fn finish(&mut self) {
        let headers_end = self.stream.header_len as usize;
        if headers_end > 0 {
            self.come(HEADER_LEN - headers_end, None);
        }
        let rest = self.stream.end.distance_to(self.stream.boundary);
        self.come(rest as usize, None);
    }

    fn acknowledge(&mut self, share: usize) {
        let here = self.acknowledged + (self.taken - self.acknowledged) * share / 256;
        self.acknowledged = here;
        let mut retired = Vec::new();
        self.stream
            .acknowledge(self.base + here as u32, &mut retired);
        for piece in retired {
            self.arena.release(piece.unit, piece.order);
        }
    }

    /// Whatever is retained is what has come.
    fn check(&self) -> Result<(), TestCaseError> {
        let (start, end) = (self.stream.start(), self.stream.end());
        prop_assert_eq!(end, self.base + self.taken as u32);
        prop_assert!(start.at_or_before(self.base + self.acknowledged as u32));
        let (first, mut slices) = (self.base.distance_to(start) as usize, Vec::new());
        let all = &self.bytes[first..self.taken];
        for from in [0, all.len() / 3, all.len().saturating_sub(HEADER_LEN)] {
            let (at, wanted) = (start + from as u32, &all[from..]);
            let (len, most) = (wanted.len() as u32, usize::MAX);
            let gathered = self.stream.gather(&self.arena, at, len, most, &mut slices);
            prop_assert_eq!(gathered, len);
            let mut got = Vec::new();
            for slice in &slices {
                let mut bytes = vec![0; slice.len as usize];
                prop_assert!(self.arena.memory().0.read(slice.offset, &mut bytes));
                got.extend(bytes);
            }
            prop_assert!(got == wanted, "from {} of {} on", from, all.len());
            prop_assert!(self.stream.is_equal(&self.arena, at, wanted));
        }
        Ok(())
    }
}

/// The header of a short record comes in two segments: as long as its length is not known, there is memory for the longest.
#[test]
fn memory_for_a_record_that_proved_to_be_short_does_not_outlive_what_is_before_it() {
    let mut model = Model::new(records(&[1800, 10, 5000]), 7);
    model.come(1800 + HEADER_LEN + TRAILER + 3, None);
    model.come(10 + HEADER_LEN + TRAILER - 3, None);
    model.acknowledge(256);
    model.come(5000, None);
    model.check().unwrap();
}

proptest! {
    #[test]
    fn what_has_come_is_retained_until_it_is_acknowledged(
        contents in prop::collection::vec(prop_oneof![0usize..40, 0usize..3000, Just(16_384)], 1..120),
        steps in steps(),
        base in any::<u32>(),
    ) {
        let mut model = Model::new(records(&contents), base);
        for step in steps {
            match step {
                Step::Come(len, block) => model.come(len, block),
                Step::Finish => model.finish(),
                Step::Acknowledge(share) => model.acknowledge(share),
            }
            model.check()?;
        }
        model.come(usize::MAX, None);
        model.check()?;
    }
}
