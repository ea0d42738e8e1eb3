//! Nothing allocates per record once a connection is running.

use std::sync::Arc;

use l5p::pattern::{self, Patterns, Scanner, TABLES};
use l5p::tls::{
    Algorithm, ContentType, ContextTag, CryptoInfo, Direction, Engine, Output, Piece, Reader,
    Version, Writer,
};
use l5p::{Layer5, Walker};
use wire::SeqNum;

#[global_allocator]
static ALLOCATOR: testkit::CountingAllocator = testkit::CountingAllocator;

const DATA: ContentType = ContentType::APPLICATION_DATA;
const FIRST: ContextTag = ContextTag {
    epoch: 0,
    number: 1,
};

#[test]
fn a_running_search_does_not_allocate() {
    let patterns = Patterns::parse("evil\n/a+[bc]/", TABLES).expect("good patterns");
    let patterns = Arc::new(patterns);
    let mut engine = pattern::Engine::new(patterns.clone(), Direction::Receive);
    let mut walker = Walker::new(0);
    let mut scanner = Scanner::new(patterns);
    let packet = b"..evi"
        .repeat(300)
        .into_iter()
        .chain(*b"l aab")
        .collect::<Vec<u8>>();
    let mut output = vec![0; packet.len()];
    let mut notes = Vec::with_capacity(64);
    let mut matches = Vec::with_capacity(64);
    let mut at = SeqNum(0);
    let mut search = |packets| {
        for n in 0..packets {
            let walked = walker.advance(&mut engine, &packet, &mut output);
            walked.expect("no header");
            notes.clear();
            notes.extend(std::iter::from_fn(|| engine.take_note()));
            if n % 16 == 0 {
                notes.clear();
            }
            matches.clear();
            let len = packet.len() as u32;
            scanner.note(at, len, &notes);
            scanner.take(at, &packet, len, &mut matches);
            at += len;
            assert_eq!(matches.len(), 2);
        }
    };
    search(2);
    let before = testkit::allocations();
    search(100);
    assert_eq!(testkit::allocations() - before, 0);
}

#[test]
fn a_running_connection_does_not_allocate() {
    for algorithm in [Algorithm::Aes128Gcm, Algorithm::ChaCha20Poly1305] {
        let info = CryptoInfo {
            version: Version::Tls13,
            algorithm,
            key: [1; 32],
            iv: [2; 12],
            sequence: 0,
        };
        let mut connection = Connection::new(&info);
        connection.exchange(100);
        let before = testkit::allocations();
        connection.exchange(1000);
        assert_eq!(testkit::allocations() - before, 0, "{algorithm:?}");
    }
}

struct Connection {
    writer: Writer,
    reader: Reader,
    engine: Engine,
    walker: Walker<[u8; l5p::tls::HEADER_LEN]>,
    at: SeqNum,
    content: Vec<u8>,
    framed: Vec<u8>,
    record: Vec<u8>,
    output: Vec<u8>,
}

impl Connection {
    fn new(info: &CryptoInfo) -> Connection {
        Connection {
            writer: Writer::new(info.clone()),
            reader: Reader::new(info.clone()),
            engine: Engine::new(info, Direction::Transmit),
            walker: Walker::new(0),
            at: SeqNum(0),
            content: vec![5; 3000],
            framed: vec![0; 3022],
            record: vec![0; 3022],
            output: vec![0; 3001],
        }
    }

    /// Records by the engine, checked by a fallback now and then, opened as raw and as mixed.
    fn exchange(&mut self, records: u32) {
        for i in 0..records {
            let len = self.content.len();
            let layout = self.writer.record_layout(DATA, len);
            self.framed[..5].copy_from_slice(layout.header());
            self.framed[5..5 + len].copy_from_slice(&self.content);
            self.framed[5 + len..].copy_from_slice(layout.trailer());
            let state = self.writer.commit(self.at, len);
            self.at += state.len;
            let half = 1448;
            for range in [0..half, half..self.framed.len()] {
                let (input, output) = (&self.framed[range.clone()], &mut self.record[range]);
                self.walker
                    .advance(&mut self.engine, input, output)
                    .expect("a header");
                if self.walker.offset() > 0 {
                    self.engine.digest(self.walker.offset());
                }
            }
            if i % 8 == 0 {
                self.writer
                    .encrypt_framed(&state, &[&self.framed], &mut self.output_for_record());
            }
            if i % 16 == 0 {
                self.writer.acknowledged(self.at);
            }
            self.reader.note_record(state.start);
            let (head, tail) = self.record.split_at_mut(half);
            if i % 2 == 0 {
                head[5..].copy_from_slice(&self.framed[5..half]);
            }
            let mut pieces = [
                Piece {
                    data: head.into(),
                    decrypted: (i % 2 == 0).then_some(FIRST),
                },
                Piece {
                    data: tail.into(),
                    decrypted: None,
                },
            ];
            let opened = self
                .reader
                .open(&mut pieces, Output::To(&mut self.output))
                .expect("a good record");
            assert_eq!(opened.len(), len);
        }
    }

    fn output_for_record(&self) -> [u8; 3022] {
        [0; 3022]
    }
}
