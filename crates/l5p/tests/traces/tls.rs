//! Both ends of TLS connections, with a NIC that has decrypted some pieces of some records.

use l5p::tls::{
    Algorithm, ContentType, CryptoInfo, Engine, Output, Piece, PostHandshake, Reader,
    TrafficSecrets, Version, Writer,
};
use l5p::{Direction, MsgState, Walker};
use testkit::fixtures::{SUITES, crypto};
use testkit::{Dice, written};
use wire::SeqNum;

/// A connection, from its sender's writer to its receiver's reader.
struct Connection {
    dice: Dice,
    info: CryptoInfo,
    /// One seals; the other frames the same records for a NIC.
    writers: [Writer; 2],
    reader: Reader,
    tags: Vec<l5p::ContextTag>,
    at: SeqNum,
    records: Vec<(MsgState, Vec<u8>)>,
    lines: Vec<String>,
}

impl Connection {
    fn new(suite: (Version, Algorithm), seed: u64) -> Connection {
        let info = CryptoInfo {
            sequence: 3,
            ..crypto(suite)
        };
        let mut connection = Connection {
            dice: Dice::new(seed),
            writers: [Writer::new(info.clone()), Writer::new(info.clone())],
            reader: Reader::new(info.clone()),
            tags: Vec::new(),
            at: SeqNum(u32::MAX - 20_000),
            records: Vec::new(),
            lines: Vec::new(),
            info,
        };
        if seed % 2 == 1 {
            connection
                .writers
                .iter_mut()
                .for_each(|writer| writer.set_padding(16));
            connection.reader.open_any_type();
        }
        connection.tags.push(connection.reader.begin_context());
        connection
    }

    /// One record, from end to end.
    fn record(&mut self) {
        let len = self.dice.of(&[0, 1, 15, 100, 1000, 3000, 16_384]);
        let content = testkit::pattern_of(len, len as u32);
        let kind = match self.dice.below(8) {
            0 => ContentType::ALERT,
            1 => ContentType::HANDSHAKE,
            _ => ContentType::APPLICATION_DATA,
        };
        let [sealer, framer] = &mut self.writers;
        let mut wire = vec![0; sealer.record_len(len)];
        sealer.seal_into(kind, &[&content[..len / 3], &content[len / 3..]], &mut wire);
        let layout = framer.record_layout(kind, len);
        let framed = [layout.header(), &content, layout.trailer()].concat();
        let state = framer.commit(self.at, len);
        let cut = 5 + self.dice.below(framed.len() as u64 - 4) as usize;
        let mut made = vec![0; framed.len()];
        let (front, back) = framed.split_at(cut.min(framed.len()));
        let sent = framer.encrypt_framed(&state, &[front, back], &mut made);
        assert!(made == wire, "both make the same record");
        let around = (
            written::bytes(layout.around()),
            sent,
            framer.record_header_len(),
        );
        self.lines.push(format!(
            "{kind:?} {len} {state:?} {around:?} {:016x}",
            written::sum(&wire)
        ));
        self.reader.note_record(self.at);
        self.receive(&state, wire);
        self.at += framed.len() as u32;
        self.records.push((state, framed));
    }

    /// The record as the NIC would have decrypted it.
    fn decrypted(&self, state: &MsgState, wire: &[u8]) -> Vec<u8> {
        let mut engine = Engine::new(&self.info, Direction::Receive);
        let mut output = vec![0; wire.len()];
        let walked = Walker::new(state.index).advance(&mut engine, wire, &mut output[..]);
        assert!(walked.is_ok());
        output
    }

    fn receive(&mut self, state: &MsgState, mut wire: Vec<u8>) {
        if self.dice.rarely(6) {
            self.reader
                .resync_request(self.at + self.dice.below(3) as u32);
        }
        let opened = self.decrypted(state, &wire);
        let mut at = 0;
        let mut marks = Vec::new();
        let everything = self.dice.rarely(3);
        let tag = self.tags[self
            .dice
            .below(self.tags.len() as u64)
            .max(self.tags.len() as u64 - 1) as usize];
        while at < wire.len() {
            let len = self
                .dice
                .of(&[3, 40, 700, 1448, 20_000])
                .min(wire.len() - at);
            let is_decrypted = everything || self.dice.rarely(3);
            if is_decrypted {
                wire[at..at + len].copy_from_slice(&opened[at..at + len]);
            }
            marks.push((len, is_decrypted.then_some(tag)));
            at += len;
        }
        let is_damaged = self.dice.rarely(12);
        let original = wire.clone();
        if is_damaged {
            let byte = self.dice.below(wire.len() as u64 - 5) as usize + 5;
            wire[byte] ^= 0x10;
        }
        let text = self.open(&mut wire, &marks);
        self.lines.push(format!(
            "  {} pieces, damaged {is_damaged}: {text}",
            marks.len()
        ));
        if is_damaged && self.reader.record_index() == state.index {
            let text = self.open(&mut original.clone(), &marks);
            self.lines.push(format!("  again: {text}"));
        }
        while let Some(answer) = self.reader.poll_resync_answer() {
            self.lines.push(format!("  {answer:?}"));
        }
    }

    fn open(&mut self, wire: &mut [u8], marks: &[(usize, Option<l5p::ContextTag>)]) -> String {
        let mut room = vec![0; self.dice.of(&[0, 50, 5000, 17_000])];
        let mut rest = &mut *wire;
        let mut pieces = Vec::new();
        for (len, decrypted) in marks {
            let (now, later) = rest.split_at_mut(*len);
            pieces.push(Piece {
                data: now.into(),
                decrypted: *decrypted,
            });
            rest = later;
        }
        let output = match room.is_empty() {
            true => Output::InPlace,
            false => Output::To(&mut room),
        };
        let opened = self.reader.open(&mut pieces, output);
        drop(pieces);
        let sums = (written::sum(wire) as u32, written::sum(&room) as u32);
        let state = (self.reader.record_index(), self.reader.agreed());
        match opened {
            Ok(opened) => format!("{opened:?} {sums:x?} {state:?}"),
            Err(error) => format!(
                "{:?} {:?} {sums:x?} {state:?}",
                error.violation,
                error.alert()
            ),
        }
    }

    fn step(&mut self) {
        match self.dice.below(12) {
            0 => self.tags.push(self.reader.begin_context()),
            1 => {
                self.info.key = self.info.key.map(|byte| byte.wrapping_mul(3) + 1);
                self.info.sequence = 0;
                let epochs = self
                    .writers
                    .iter_mut()
                    .map(|writer| writer.rekey(self.info.clone()));
                let epochs: Vec<u16> = epochs.collect();
                let epoch = self.reader.rekey(self.info.clone());
                self.lines.push(format!("new keys {epochs:?} {epoch}"));
                if self.dice.rarely(2) {
                    self.reader.forget_epoch(epoch.wrapping_sub(1));
                }
                self.tags.push(self.reader.begin_context());
            }
            2 => self.acknowledge(),
            _ => self.record(),
        }
    }

    fn acknowledge(&mut self) {
        let back = self.dice.below(9000) as u32;
        let una = self.at - back;
        let writer = &mut self.writers[1];
        writer.acknowledged(una);
        let message = writer
            .message_state(una)
            .map(|state| (state.start, state.index, state.epoch));
        let left = (
            writer.is_empty(),
            writer.release_point(una),
            writer.epoch(),
            writer.sequence(),
        );
        let kept: Vec<bool> = self
            .records
            .iter()
            .map(|(state, _)| writer.crypto_info_of(state).is_some())
            .collect();
        let kept = kept.iter().filter(|kept| **kept).count();
        self.lines.push(format!(
            "acknowledged up to {una:?}: {message:?} {left:?} {kept}"
        ));
    }
}

#[test]
fn connections() {
    let mut lines = Vec::new();
    for suite in SUITES {
        for seed in 0..4 {
            let mut connection = Connection::new(suite, seed);
            (0..60).for_each(|_| connection.step());
            lines.push(format!("{suite:?} {seed}"));
            let most = if seed == 0 { 8 } else { 1 };
            lines.extend(written::shorten(connection.lines, most));
        }
    }
    written::compare(env!("CARGO_MANIFEST_DIR"), "tls_connections", &lines);
}

#[test]
fn after_the_handshake() {
    let mut lines = Vec::new();
    for version in [Version::Tls12, Version::Tls13] {
        for is_client in [false, true] {
            for algorithm in [
                Algorithm::Aes128Gcm,
                Algorithm::Aes256Gcm,
                Algorithm::ChaCha20Poly1305,
            ] {
                let len = if algorithm == Algorithm::Aes256Gcm {
                    48
                } else {
                    32
                };
                let secrets = |len| {
                    let (client, server) = (vec![1; len], vec![2; len]);
                    TrafficSecrets::new(is_client, algorithm, &client, &server)
                };
                assert!(secrets(len - 1).is_none() && secrets(len + 1).is_none());
                let begin = || {
                    let secrets = secrets(len).expect("of the hash's length");
                    PostHandshake::new(version, Box::new(secrets))
                };
                lines.push(format!("{version:?} {is_client} {algorithm:?}"));
                let mut post = begin();
                for request in [false, true] {
                    lines.push(match post.key_update(request) {
                        Ok(update) => format!(
                            "  {:?} {:016x}",
                            update.message,
                            written::sum(&update.keys.to_bytes())
                        ),
                        Err(error) => format!("  {error}"),
                    });
                }
                lines.extend(records(post, begin));
            }
        }
    }
    let lines: Vec<String> = lines
        .chunks(27)
        .flat_map(|part| written::shorten(part.to_vec(), 12))
        .collect();
    written::compare(
        env!("CARGO_MANIFEST_DIR"),
        "tls_after_the_handshake",
        &lines,
    );
}

/// What it says of records; one that breaks the protocol is the last one of its connection.
fn records(mut post: PostHandshake, begin: impl Fn() -> PostHandshake) -> Vec<String> {
    let handshake = ContentType::HANDSHAKE;
    let cases: [(ContentType, &[&[u8]]); 24] = [
        (handshake, &[&[24, 0, 0, 1, 0]]),
        (handshake, &[&[24, 0, 0, 1, 1]]),
        (handshake, &[&[24, 0], &[0, 1, 1]]),
        (handshake, &[&[24, 0, 0, 1]]),
        (handshake, &[&[0]]),
        (handshake, &[&[24, 0, 0, 1, 2]]),
        (handshake, &[&[24, 0, 0, 2, 0, 0]]),
        (handshake, &[&[24, 0, 0, 1, 0, 4]]),
        (ContentType::APPLICATION_DATA, &[]),
        (handshake, &[&[0, 0, 1, 9]]),
        (handshake, &[&[4, 0, 0, 1, 9]]),
        (handshake, &[&[4, 0, 0, 3, 9, 9, 9, 4, 0, 0, 0]]),
        (handshake, &[&[0, 0, 0, 0]]),
        (handshake, &[&[1, 0, 0, 0]]),
        (handshake, &[&[13, 0, 0, 0]]),
        (handshake, &[&[11, 1, 0, 0]]),
        (handshake, &[&[]]),
        (ContentType::ALERT, &[&[1, 0]]),
        (ContentType::ALERT, &[&[2], &[40]]),
        (ContentType::ALERT, &[&[1, 90]]),
        (ContentType::ALERT, &[&[1, 100]]),
        (ContentType::ALERT, &[&[1]]),
        (ContentType::ALERT, &[&[1, 0, 0]]),
        (ContentType(99), &[&[1]]),
    ];
    let mut lines = Vec::new();
    for (n, (kind, content)) in cases.into_iter().enumerate() {
        let said = post.handle_record(n as u64, kind, content.iter().copied());
        let mut line = match &said {
            Ok(()) => format!("  {n}: well"),
            Err(error) => format!("  {n}: {:?} {:?}", error.violation, error.alert()),
        };
        while let Some(event) = post.poll_event() {
            line += &match event {
                l5p::tls::Event::ReceiveKeys(keys) => {
                    format!(" keys {:016x}", written::sum(&keys.to_bytes()))
                }
                event => format!(" {event:?}"),
            };
        }
        if said.is_err() {
            post = begin();
        }
        lines.push(line);
    }
    lines
}
