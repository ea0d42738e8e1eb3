//! Engines, as a NIC drives them.

mod protocols;

use l5p::tls::CryptoInfo;
use l5p::{
    AnyOrder, Direction, Judgement, Layer5, Listed, Parameters, Protocol, ProtocolId, Resource,
    ResourceId, ResultRing, Results, Visitor, Walker, http, iscsi, pattern, visit,
};
use testkit::fixtures::{SUITES, crypto};
use testkit::records::Records;
use testkit::{Dice, written};

use crate::streams;

/// Lines written down of a stream; of what comes behind, only a sum.
const WRITTEN: usize = 12;

/// A stream for an engine.
struct Stream<'a> {
    parameters: Vec<u8>,
    resource: Option<&'a Resource>,
    direction: Direction,
    bytes: &'a [u8],
    seed: u64,
}

impl Visitor for Stream<'_> {
    type Output = Vec<String>;

    fn visit<P: Protocol>(self, _: ProtocolId) -> Vec<String> {
        let Some(parameters) = P::Parameters::decode(&self.parameters) else {
            return vec!["no such parameters".to_owned()];
        };
        let mut lines = vec![of_parameters(&parameters)];
        let create = || P::create(&parameters, self.direction, self.resource);
        let (Some(mut engine), Some(mut other)) = (create(), create()) else {
            return vec!["no engine".to_owned()];
        };
        lines.push(judged(&engine, self.bytes));
        let mut dice = Dice::new(self.seed);
        lines.extend(in_order(
            &mut engine,
            self.bytes,
            parameters.first_index(),
            &mut dice,
        ));
        if self.direction == Direction::Receive {
            lines.extend(with_gaps(
                &mut other,
                self.bytes,
                parameters.first_index(),
                &mut dice,
            ));
        }
        if let Some(engine) = create().filter(Layer5::is_seekable) {
            lines.push(again(engine, self.bytes, parameters.first_index()));
        }
        lines
    }
}

fn of_parameters<P: Parameters>(parameters: &P) -> String {
    let mut encoded = vec![0; P::ENCODED_LEN];
    parameters.encode(&mut encoded);
    let about = (
        parameters.first_index(),
        parameters.tags(),
        parameters.resource(),
        parameters.is_seekable(),
    );
    // Which bits of the encoding may be changed.
    let mut may = Vec::new();
    for bit in 0..8 * encoded.len() {
        encoded[bit / 8] ^= 1 << (bit % 8);
        may.push(u8::from(P::decode(&encoded).is_some()));
        encoded[bit / 8] ^= 1 << (bit % 8);
    }
    let (encoded, may) = (written::bytes(&encoded), written::sum(&may));
    format!("{about:?} {encoded}, {may:016x}")
}

/// Where messages may begin, as far as the engine can judge, and how soon it does.
fn judged<E: Layer5>(engine: &E, bytes: &[u8]) -> String {
    let (mut begins, mut sooner) = (Vec::new(), Vec::new());
    for at in 0..bytes.len() {
        let header = &bytes[at..bytes.len().min(at + E::HEADER_LEN)];
        if let Judgement::Message { len } = engine.judge(header) {
            begins.extend(((at as u64) << 32 | u64::from(len)).to_le_bytes());
        }
        let soon =
            (0..=header.len()).find(|len| engine.judge(&header[..*len]) != Judgement::TooShort);
        sooner.push(soon.unwrap_or(99) as u8);
        sooner.push(u8::from(engine.may_begin(&header[..header.len().min(3)])));
        sooner.push(engine.header_len(&[header, &[0; 64]].concat()[..E::MIN_HEADER_LEN]) as u8);
    }
    let (count, begins, sooner) = (
        begins.len() / 8,
        written::sum(&begins),
        written::sum(&sooner),
    );
    format!("{count} beginnings {begins:016x} {sooner:016x}")
}

/// What the engine has to say behind a piece.
fn said<E: Layer5>(engine: &mut E, results: &mut Results) -> String {
    let mut text = String::new();
    if E::HAS_RESULTS {
        let counts = engine.exchange_results(results);
        let pieces: Vec<_> = results
            .pieces()
            .map(|(place, bytes)| {
                format!(
                    "{}@{}:{} {:08x}",
                    bytes.len(),
                    place.tag,
                    place.at,
                    written::sum(bytes) as u32
                )
            })
            .collect();
        results.clear();
        text += &format!(" {counts} {pieces:?}");
    }
    let mut last = None;
    while let Some(note) = engine.take_note() {
        let joins = last.is_some_and(|last| E::may_join(&last, &note));
        text += &format!(
            " {}:{}={:x}{}",
            note.at,
            note.code,
            note.value,
            if joins { "+" } else { "" }
        );
        last = Some(note);
    }
    text
}

/// All of it, in order and in pieces.
fn in_order<E: Layer5>(engine: &mut E, bytes: &[u8], index: u64, dice: &mut Dice) -> Vec<String> {
    let mut walker = Walker::new(index);
    let mut results = Results::default();
    let (mut rest, mut made, mut lines) = (bytes, Vec::new(), Vec::new());
    while !rest.is_empty() {
        let len = dice
            .of(&[1, 2, 5, 19, 100, 700, 1448, 4000])
            .min(rest.len());
        let (now, later) = rest.split_at(len);
        let mut output = now.to_vec();
        engine.exchange_results(&mut results);
        let walked = match dice.rarely(4) {
            true => walker.absorb(engine, now),
            false => walker.advance(engine, now, &mut output[..]),
        };
        made.extend_from_slice(&output);
        let place = (
            walker.index(),
            walker.offset(),
            walker.message_len(),
            walker.to_next_header(),
            walker.to_boundary(engine),
        );
        let mut line = match walked {
            Ok(walked) => format!(
                "{len}: {} {:?} {place:?}",
                walked.messages_finished, walked.integrity
            ),
            Err(error) => format!("{len}: {error}"),
        };
        if let (Some(message), Ok(_)) = (walker.message_len(), walked) {
            line += &format!(
                " {:?} {:?} {:?}",
                engine.placement(),
                engine.icv(message),
                engine.content(message)
            );
            if walker.offset() as usize >= E::HEADER_LEN {
                line += &format!(
                    " {:08x}",
                    written::sum(&engine.digest(walker.offset())) as u32
                );
            }
        }
        line += &said(engine, &mut results);
        lines.push(line);
        if walked.is_err() {
            break;
        }
        rest = later;
    }
    let about = (
        engine.has_checks(),
        engine.check_tells_number(),
        engine.carries(0x17),
        engine.carries(0x16),
        engine.carries_nothing(0x15),
        engine.carries_nothing(0),
    );
    let mut lines = written::shorten(lines, WRITTEN);
    lines.push(format!("all: {:016x} {about:?}", written::sum(&made)));
    lines
}

/// Bytes of messages' middles are missing, and come late.
fn with_gaps<E: AnyOrder>(
    engine: &mut E,
    bytes: &[u8],
    index: u64,
    dice: &mut Dice,
) -> Vec<String> {
    let mut walker = Walker::new(index);
    let mut results = Results::default();
    let (mut at, mut lines) = (0, Vec::new());
    while at < bytes.len() {
        engine.exchange_results(&mut results);
        let left = walker.message_len().map_or(0, |len| len - walker.offset()) as usize;
        let len = dice.of(&[3, 40, 300, 900]).min(bytes.len() - at);
        if left > 2 && dice.rarely(2) {
            let missing = len.min(left - 1);
            let (offset, message_len) =
                (walker.offset(), walker.message_len().expect("it has begun"));
            let message = engine.message(offset, message_len);
            let walked = walker.pass_missing(engine, missing as u32);
            let (half, late) = (missing / 2, &bytes[at..at + missing]);
            let mut output = late.to_vec();
            let mut sum = String::from("nothing");
            if let Some(message) = &message {
                let (front, back) = output.split_at_mut(half);
                let behind = engine.transform_aside(
                    message,
                    message_len,
                    offset + half as u32,
                    &late[half..],
                    back.into(),
                );
                let before = engine.transform_aside(
                    message,
                    message_len,
                    offset,
                    &late[..half],
                    front.into(),
                );
                let absorbed = engine.absorb_aside(message, message_len, offset, late);
                assert_eq!(absorbed, before ^ behind);
                sum = format!(
                    "{:08x} {:08x}",
                    written::sum(&absorbed.to_le_bytes()) as u32,
                    written::sum(&output) as u32
                );
            }
            lines.push(format!(
                "{missing} late at {offset} of {message_len}: {} {sum}",
                walked.messages_finished
            ));
            at += missing;
        } else {
            let mut output = bytes[at..at + len].to_vec();
            let walked = walker.advance(engine, &bytes[at..at + len], &mut output[..]);
            let sum = written::sum(&output) as u32;
            match walked {
                Ok(walked) => lines.push(format!(
                    "{len}: {} {:?} {sum:08x}",
                    walked.messages_finished, walked.integrity
                )),
                Err(error) => {
                    lines.push(error.to_string());
                    break;
                }
            }
            at += len;
        }
        let residue = written::sum(&engine.residue().to_le_bytes()) as u32;
        *lines.last_mut().expect("a line") +=
            &format!(" {residue:08x}{}", said(engine, &mut results));
    }
    written::shorten(lines, WRITTEN)
}

/// Middles of the first message, made again.
fn again<E: Layer5>(mut engine: E, bytes: &[u8], index: u64) -> String {
    let Judgement::Message { len } = engine.judge(&bytes[..E::HEADER_LEN]) else {
        return "no message".to_owned();
    };
    let mut made = Vec::new();
    for (from, to) in [
        (0, 3),
        (5, 17),
        (14, 60),
        (100, len as usize - 20),
        (50, len as usize),
        (len as usize - 16, len as usize),
    ] {
        let mut output = vec![0; to - from];
        let can = engine.transform_at(
            index,
            len,
            from as u32,
            (&bytes[from..to]).into(),
            (&mut output[..]).into(),
        );
        made.push(u8::from(can));
        made.extend(output);
    }
    format!("made again: {:016x}", written::sum(&made))
}

fn run<P: Listed>(
    parameters: &P,
    resource: Option<&Resource>,
    direction: Direction,
    bytes: &[u8],
    seed: u64,
) -> Vec<String> {
    let mut encoded = vec![0; P::ENCODED_LEN];
    parameters.encode(&mut encoded);
    let stream = Stream {
        parameters: encoded,
        resource,
        direction,
        bytes,
        seed,
    };
    visit(P::ID, stream).expect("it is in the list")
}
