//! A stream of bytes through the NVMe/TCP engine and the PDU reader, whole and in pieces, with and without what the engine
//! tells of digests: all must come to the same end.

use l5p::nvme::{Engine, FatalError, Parameters, Role};
use l5p::pdus::{DataDigest, Event, Next, Reader};
use l5p::{Direction, Integrity, NotAHeader, Walked, Walker};
use wire::SeqNum;
use wire::nvme::Pdu;

/// Bytes: what was agreed on, the alignment, the length of the pieces, the tags; the rest is the stream.
pub fn run(data: &[u8]) {
    let [choice, alignment, piece, commands, stream @ ..] = data else {
        return;
    };
    let is = |bit: u8| choice >> bit & 1 != 0;
    let parameters = Parameters {
        sender: if is(0) { Role::Host } else { Role::Controller },
        header_digest: is(1),
        data_digest: is(2),
        alignment: alignment % 32,
        max_pdu: 1 << 16,
        commands: u16::from(*commands),
    };
    let (all, piece) = (stream.len().max(1), usize::from(*piece).max(1));

    for direction in [Direction::Receive, Direction::Transmit] {
        let whole = walk(&parameters, direction, stream, all);
        let pieces = walk(&parameters, direction, stream, piece);
        assert_eq!((&whole.0, &whole.1), (&pieces.0, &pieces.1));
    }
    let flags = walk(&parameters, Direction::Receive, stream, piece).2;

    let expected = read(&parameters, stream, all, &[]);
    assert_eq!(read(&parameters, stream, piece, &[]), expected);
    assert_eq!(read(&parameters, stream, piece, &flags), expected);
}

/// What was walked, the bytes up to where a header was missed, and for each piece whether the checks in it held.
type Outcome = (Result<Walked, NotAHeader>, Vec<u8>, Vec<bool>);

fn walk(parameters: &Parameters, direction: Direction, stream: &[u8], piece: usize) -> Outcome {
    let mut engine = Engine::new(parameters, direction);
    let mut walker = Walker::new(0);
    let mut output = vec![0; stream.len()];
    let mut flags = Vec::new();
    let mut total = Walked {
        messages_finished: 0,
        integrity: Integrity::Good,
    };
    for (n, (input, written)) in stream
        .chunks(piece)
        .zip(output.chunks_mut(piece))
        .enumerate()
    {
        match walker.advance(&mut engine, input, written) {
            Ok(walked) => {
                total.messages_finished += walked.messages_finished;
                flags.push(walked.integrity == Integrity::Good);
                if walked.integrity == Integrity::Bad {
                    total.integrity = walked.integrity;
                }
            }
            Err(refused) => {
                let at = (n * piece) as i64 + refused.at;
                output.truncate(at as usize);
                return (Err(NotAHeader { at }), output, flags);
            }
        }
    }
    (Ok(total), output, flags)
}

/// The headers, the data with what is known of its digest, and why the stream ended.
type Read = (Vec<(Event<Pdu>, Vec<u8>)>, Result<(), FatalError>);

fn read(parameters: &Parameters, stream: &[u8], piece: usize, flags: &[bool]) -> Read {
    let mut reader = Reader::new(parameters.framing(), SeqNum(u32::MAX - 100));
    let mut events = Vec::new();
    let mut data = Vec::new();
    for (n, bytes) in stream.chunks(piece).enumerate() {
        let checked = flags.get(n).copied().unwrap_or(false);
        let mut rest = bytes;
        while !rest.is_empty() {
            let (taken, event) = match reader.next() {
                Next::Frame => match reader.take(rest, checked) {
                    Ok(taken) => taken,
                    Err(error) => return (events, Err(error)),
                },
                Next::Data(range) => {
                    let len = range.len().min(rest.len());
                    let to = &mut data[range.start as usize..][..len];
                    (len, reader.copy(&rest[..len], to, checked))
                }
                Next::Waiting => unreachable!("an established direction waits for nothing"),
            };
            rest = &rest[taken..];
            match event {
                Some(Event::Header(pdu)) => {
                    // No PDU is longer than is accepted.
                    data = vec![0; pdu.data_len() as usize];
                    events.push((Event::Header(pdu), Vec::new()));
                }
                Some(Event::End(mut digest)) => {
                    if let DataDigest::Unverified(from) = digest {
                        digest = reader.verify(&data[from as usize..]);
                    }
                    events.push((Event::End(digest), std::mem::take(&mut data)));
                }
                None => {}
            }
        }
    }
    (events, Ok(()))
}
