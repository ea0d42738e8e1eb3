//! Any stream is a response or is refused. Whatever the NIC decodes of it, what is read is what software reads.

use std::io;

use l5p::http::{Content, Engine, Sink};
use l5p::{Direction, Layer5, Note, ResultRing, Results, Walker};
use wire::SeqNum;

const RING: ResultRing = ResultRing {
    buffer_len: 1 << 16,
    buffers: 64,
};
/// Bytes that content may have.
const LIMIT: u64 = 1 << 20;

/// Bytes: the length of packets, which packets' notes come, which packets the NIC sees otherwise; then the stream.
pub fn run(data: &[u8]) {
    let [packet, noted, forged, stream @ ..] = data else {
        return;
    };
    let packet = usize::from(*packet) * 8 + 1;
    let software = read(stream, stream.len(), None, |_| None);
    let mut nic = Nic::new();
    let with_nic = read(stream, packet, Some(RING), |bytes| {
        nic.receive(bytes, *noted, *forged)
    });
    assert_eq!(software, with_nic);
}

/// What is read of a stream in packets, on each of which there are notes, and results of the NIC's; `None` when it is no response.
fn read(
    stream: &[u8],
    packet: usize,
    ring: Option<ResultRing>,
    mut notes: impl FnMut(&[u8]) -> Option<(Vec<Note>, Vec<u8>)>,
) -> Option<Vec<u8>> {
    let mut content = Content::new(Some(LIMIT), ring);
    let mut output = Output::default();
    let mut at = SeqNum(u32::MAX - 500);
    for bytes in stream.chunks(packet.max(1)) {
        let (notes, placed) = notes(bytes).unwrap_or_default();
        output.placed.extend(placed);
        content.note(at, bytes.len() as u32, &notes);
        let mut done = 0;
        while done < bytes.len() && !content.is_done() {
            let (rest, known) = (&bytes[done..], bytes.len() - done);
            let position = at + done as u32;
            let used = content.take(position, rest, known as u32, &mut output);
            done += used.ok()?;
            while content.is_behind() {
                content.catch_up(&mut output).ok()?;
            }
        }
        at += bytes.len() as u32;
    }
    if !content.is_done() {
        content.handle_end().ok()?;
        while content.is_behind() {
            content.catch_up(&mut output).ok()?;
        }
    }
    assert_eq!(content.made(), output.written.len() as u64);
    assert!(content.made() <= LIMIT);
    Some(output.written)
}

#[derive(Default)]
struct Output {
    placed: Vec<u8>,
    used: usize,
    written: Vec<u8>,
}

impl Sink for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.written.extend_from_slice(bytes);
        Ok(())
    }

    fn write_placed(&mut self, len: u64) -> io::Result<()> {
        let end = self.used + len as usize;
        self.written.extend_from_slice(&self.placed[self.used..end]);
        self.used = end;
        Ok(())
    }
}

struct Nic {
    engine: Engine,
    walker: Walker<[u8; 1]>,
    results: Results,
    packets: usize,
}

impl Nic {
    fn new() -> Nic {
        Nic {
            engine: Engine::new(RING, Direction::Receive),
            walker: Walker::new(0),
            results: Results::default(),
            packets: 0,
        }
    }

    /// The notes on a packet, and what was made of it, if they come. What bit `n` of the choices says is so for every eighth packet from
    /// the `n`th on.
    fn receive(&mut self, bytes: &[u8], noted: u8, forged: u8) -> Option<(Vec<Note>, Vec<u8>)> {
        let is = |choice: u8| choice >> (self.packets % 8) & 1 != 0;
        let (is_noted, is_forged) = (is(noted), is(forged));
        self.packets += 1;
        let mut seen = bytes.to_vec();
        if is_forged {
            seen.reverse();
        }
        self.results.clear();
        self.engine.exchange_results(&mut self.results);
        let mut passed = vec![0; seen.len()];
        self.walker
            .advance(&mut self.engine, &seen, &mut passed)
            .expect("windows have no header");
        assert_eq!(passed, seen);
        let goes_on = self.engine.exchange_results(&mut self.results);
        let notes: Vec<Note> = std::iter::from_fn(|| self.engine.take_note()).collect();
        assert!(goes_on || notes.is_empty());
        let made = self.results.pieces().flat_map(|(_, bytes)| bytes.to_vec());
        let made = made.collect();
        (is_noted && !is_forged && goes_on).then_some((notes, made))
    }
}
