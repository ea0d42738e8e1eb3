use proptest::collection::vec;
use proptest::prelude::*;
use wire::tls::ContentType;

use super::{ContextTag, Location, Offloaded, Opened, Output, Piece, PieceData, Reader};
use crate::Walker;
use crate::tls::fixture::{PAIRS, info, pair, pair_of_tls13, ranges};
use crate::tls::{
    Alert, Algorithm, CryptoInfo, Direction, Engine, ICV_LEN, MAX_PLAINTEXT, TlsError, Version,
    Violation, Writer,
};

const DATA: ContentType = ContentType::APPLICATION_DATA;

fn seal(writer: &mut Writer, content_type: ContentType, content: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; writer.record_len(content.len())];
    writer.seal_into(content_type, &[content], &mut bytes);
    bytes
}

/// What a NIC context under `info`, at record `index`, makes of a record.
fn decrypted(info: &CryptoInfo, index: u64, record: &[u8]) -> Vec<u8> {
    let mut output = vec![0; record.len()];
    Walker::new(index)
        .advance(
            &mut Engine::new(info, Direction::Receive),
            record,
            &mut output,
        )
        .expect("a header");
    output
}

/// Encrypts `inner`, all of a TLS 1.3 record's inner plaintext.
fn seal_inner(info: &CryptoInfo, inner: &[u8]) -> Vec<u8> {
    let mut framed = vec![23, 3, 3];
    framed.extend_from_slice(&((inner.len() + ICV_LEN) as u16).to_be_bytes());
    framed.extend_from_slice(inner);
    framed.extend_from_slice(&[0; ICV_LEN]);
    let mut record = vec![0; framed.len()];
    Walker::new(info.sequence)
        .advance(
            &mut Engine::new(info, Direction::Transmit),
            &framed,
            &mut record,
        )
        .expect("a header");
    record
}

/// The first context of a reader's, if it began in this epoch.
fn first_of(epoch: u16) -> ContextTag {
    ContextTag { epoch, number: 1 }
}

/// Opens a record of scattered pieces, of which every other one is where the NIC has put it if it can be; returns its content too.
fn open(
    reader: &mut Reader,
    pieces: &[(Vec<u8>, Option<u16>)],
    buffer: Option<usize>,
) -> Result<(Opened, Vec<u8>), TlsError> {
    let (mut memory, current) = (pieces.to_vec(), reader.epoch());
    let mut pieces: Vec<Piece<'_>> = memory
        .iter_mut()
        .enumerate()
        .map(|(at, (data, decrypted))| Piece {
            data: match at % 2 == 1 && *decrypted == Some(current) {
                true => PieceData::Placed(data[..].into()),
                false => data[..].as_mut().into(),
            },
            decrypted: decrypted.map(first_of),
        })
        .collect();
    let mut output = vec![0xee; buffer.unwrap_or(0)];
    let target = match buffer {
        Some(_) => Output::To(&mut output),
        None => Output::InPlace,
    };
    let opened = reader.open(&mut pieces, target)?;
    let content = match &opened.content {
        Location::Output(len) => output[..*len].to_vec(),
        Location::Record(range) => {
            drop(pieces);
            let record: Vec<u8> = memory.into_iter().flat_map(|(data, _)| data).collect();
            record[range.clone()].to_vec()
        }
    };
    assert_eq!(content.len(), opened.len());
    Ok((opened, content))
}

fn whole(record: &[u8]) -> [(Vec<u8>, Option<u16>); 1] {
    [(record.to_vec(), None)]
}

/// Scatters a record; each piece is taken from one of its `forms`.
fn scatter(
    forms: &[(&[u8], Option<u16>)],
    cuts: &[u32],
    choices: &[usize],
) -> Vec<(Vec<u8>, Option<u16>)> {
    ranges(forms[0].0.len(), cuts)
        .into_iter()
        .zip(choices.iter().cycle())
        .map(|(range, choice)| {
            let (bytes, decrypted) = forms[choice % forms.len()];
            (bytes[range].to_vec(), decrypted)
        })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// Whatever the NIC has decrypted of a record, its content is the same.
    #[test]
    fn the_mix_does_not_matter(
        pair in pair(),
        contents in vec(vec(any::<u8>(), 0..4000), 1..4),
        padding in 1..=16u8,
        cuts in vec(any::<u32>(), 0..8),
        choices in vec(0..2usize, 9),
        buffer in any::<Option<bool>>(),
    ) {
        let info = info(pair, 4);
        let (mut writer, mut reader) = (Writer::new(info.clone()), Reader::new(info.clone()));
        writer.set_padding(padding);
        for (i, content) in contents.iter().enumerate() {
            let index = info.sequence + i as u64;
            let record = seal(&mut writer, DATA, content);
            let plain = decrypted(&info, index, &record);
            let pieces = scatter(&[(&record, None), (&plain, Some(0))], &cuts, &choices);
            prop_assert_eq!(reader.next_len(&record), Ok(Some(record.len())));
            prop_assert_eq!(reader.record_index(), index);
            // Room for all, or not for the inner content type.
            let room = buffer.map(|more| content.len() + if more { 40 } else { 0 });
            let (opened, got) = open(&mut reader, &pieces, room).unwrap();
            prop_assert_eq!(&got, content);
            prop_assert_eq!((opened.content_type, opened.record), (DATA, index));
            let filled: Vec<_> = pieces.iter().filter(|p| !p.0.is_empty()).map(|p| p.1).collect();
            prop_assert_eq!(opened.offloaded, if filled.iter().all(Option::is_some) {
                Offloaded::Full
            } else if filled.iter().any(Option::is_some) {
                Offloaded::Partial
            } else {
                Offloaded::None
            });
        }
    }

    /// After the peer's key update the NIC goes on with the old keys for a while.
    #[test]
    fn transforms_under_old_keys_are_undone(
        pair in pair_of_tls13(),
        before in 0..4u64,
        between in 0..3u64,
        contents in vec(vec(any::<u8>(), 0..2000), 1..4),
        cuts in vec(any::<u32>(), 0..8),
        choices in vec(0..4usize, 9),
        to_buffer in any::<bool>(),
    ) {
        let keys = [info(pair, 1), info(pair, 2), info(pair, 3)];
        let mut reader = Reader::new(keys[0].clone());
        let open_some = |reader: &mut Reader, keys: &CryptoInfo, n| {
            let mut writer = Writer::new(keys.clone());
            for _ in 0..n {
                let record = seal(&mut writer, DATA, b"before");
                open(reader, &whole(&record), None).unwrap();
            }
        };
        open_some(&mut reader, &keys[0], before);
        assert_eq!(reader.rekey(keys[1].clone()), 1);
        open_some(&mut reader, &keys[1], between);
        assert_eq!(reader.rekey(keys[2].clone()), 2);
        let mut writer = Writer::new(keys[2].clone());
        for (i, content) in contents.iter().enumerate() {
            let i = i as u64;
            let record = seal(&mut writer, DATA, content);
            let oldest = decrypted(&keys[0], keys[0].sequence + before + between + i, &record);
            let older = decrypted(&keys[1], keys[1].sequence + between + i, &record);
            let plain = decrypted(&keys[2], keys[2].sequence + i, &record);
            let forms: [(&[u8], _); 4] =
                [(&record, None), (&oldest, Some(0)), (&older, Some(1)), (&plain, Some(2))];
            let pieces = scatter(&forms, &cuts, &choices);
            let room = to_buffer.then_some(content.len() + 1);
            let (_, got) = open(&mut reader, &pieces, room).unwrap();
            prop_assert_eq!(&got, content);
        }
    }

    #[test]
    fn tampering_names_the_record(
        pair in pair(),
        good in 0..3u64,
        content in vec(any::<u8>(), 1..1000),
        at in any::<usize>(),
        bit in 0..8u32,
        cuts in vec(any::<u32>(), 0..4),
        to_buffer in any::<bool>(),
    ) {
        let info = info(pair, 4);
        let (mut writer, mut reader) = (Writer::new(info.clone()), Reader::new(info.clone()));
        for _ in 0..good {
            let record = seal(&mut writer, DATA, b"good");
            open(&mut reader, &whole(&record), None).unwrap();
        }
        let mut record = seal(&mut writer, DATA, &content);
        let at = 5 + at % (record.len() - 5);
        record[at] ^= 1 << bit;
        let mut memory = scatter(&[(&record, None)], &cuts, &[0]);
        let mut pieces: Vec<Piece<'_>> = memory
            .iter_mut()
            .map(|(data, decrypted)| Piece { data: data[..].as_mut().into(), decrypted: decrypted.map(first_of) })
            .collect();
        let mut buffer = vec![0; 1200];
        let output = if to_buffer { Output::To(&mut buffer) } else { Output::InPlace };
        let error = reader.open(&mut pieces, output).unwrap_err();
        prop_assert_eq!(&error, &TlsError {
            record: info.sequence + good,
            violation: Violation::BadTag,
        });
        prop_assert_eq!(error.alert(), Alert::BadRecordMac);
        // Nothing that is not authentic stays in the caller's buffer.
        prop_assert!(buffer.iter().all(|b| *b == 0));
    }

    #[test]
    fn arbitrary_records_never_panic(
        pair in pair(),
        bytes in vec(any::<u8>(), 0..400),
        content_type in 19..26u8,
        decrypted in any::<Option<bool>>(),
        to in any::<Option<u16>>(),
    ) {
        let mut reader = Reader::new(info(pair, 4));
        let mut record = vec![content_type, 3, 3];
        record.extend_from_slice(&(bytes.len() as u16).to_be_bytes());
        record.extend_from_slice(&bytes);
        let _ = reader.next_len(&bytes);
        if reader.next_len(&record).is_ok() {
            let decrypted = decrypted.map(u16::from);
            let to = to.map(|len| usize::from(len) % 500);
            let _ = open(&mut reader, &[(record, decrypted)], to);
        }
    }
}

fn violation_of(info: &CryptoInfo, record: &[u8]) -> Violation {
    let mut reader = Reader::new(info.clone());
    match reader.next_len(record) {
        Err(error) => error.violation,
        Ok(_) => {
            open(&mut reader, &whole(record), None)
                .unwrap_err()
                .violation
        }
    }
}

#[test]
fn what_may_not_come_is_refused() {
    let tls13 = info((Version::Tls13, Algorithm::Aes128Gcm), 1);
    let tls12 = info((Version::Tls12, Algorithm::ChaCha20Poly1305), 1);
    let too_long = Violation::TooLong(MAX_PLAINTEXT + 1, MAX_PLAINTEXT);
    for (info, header, violation) in [
        // A change_cipher_spec of the middlebox compatibility mode ends with the Finished.
        (&tls13, &[20, 3, 3, 0, 1, 1][..], Violation::ContentType(20)),
        (&tls13, &[21, 3, 3, 0, 2, 2, 40], Violation::ContentType(21)),
        (&tls12, &[20, 3, 3, 0, 17], Violation::ContentType(20)),
        (&tls12, &[24, 3, 3, 0, 17], Violation::ContentType(24)),
        (&tls12, &[23, 3, 1, 0, 17], Violation::Version(0x301)),
        (&tls13, &[23, 3, 3, 0, 16], Violation::TooShort(16)),
        (&tls13, &[23, 3, 3, 0x40, 18], too_long.clone()),
        (&tls12, &[23, 3, 3, 0x40, 17], too_long),
    ] {
        assert_eq!(violation_of(info, header), violation, "{header:?}");
    }
    for (inner, violation) in [
        (&[0][..], Violation::OnlyPadding),
        (&[0; 900], Violation::OnlyPadding),
        (&[22, 0, 0], Violation::Empty(22)),
        (&[1, 20], Violation::ContentType(20)),
        (&[7; MAX_PLAINTEXT + 1], Violation::ContentType(7)),
    ] {
        let record = seal_inner(&tls13, inner);
        let len = inner.len();
        assert_eq!(violation_of(&tls13, &record), violation, "{len} bytes");
    }
    let alert = seal(&mut Writer::new(tls12.clone()), ContentType::ALERT, &[]);
    assert_eq!(violation_of(&tls12, &alert), Violation::Empty(21));
}

#[test]
fn a_record_size_limit_is_kept() {
    for pair in PAIRS {
        let info = info(pair, 1);
        let mut writer = Writer::new(info.clone());
        writer.set_max_plaintext(64);
        assert_eq!(writer.max_plaintext(), 64);
        let mut reader = Reader::new(info.clone());
        reader.set_max_plaintext(64);
        let record = seal(&mut writer, DATA, &[1; 64]);
        open(&mut reader, &whole(&record), None).unwrap();
        writer.set_max_plaintext(65);
        let record = seal(&mut writer, DATA, &[1; 65]);
        let error = open(&mut reader, &whole(&record), None).unwrap_err();
        assert_eq!(error.violation, Violation::TooLong(65, 64));
        assert_eq!(error.alert(), Alert::RecordOverflow);
    }
}

#[test]
fn the_largest_records_are_opened() {
    for pair in PAIRS {
        let info = info(pair, 1);
        let record = seal(&mut Writer::new(info.clone()), DATA, &[9; MAX_PLAINTEXT]);
        for room in [None, Some(MAX_PLAINTEXT), Some(MAX_PLAINTEXT - 1)] {
            let (opened, content) =
                open(&mut Reader::new(info.clone()), &whole(&record), room).unwrap();
            assert_eq!(content, [9; MAX_PLAINTEXT]);
            let in_output = matches!(opened.content, Location::Output(_));
            assert_eq!(in_output, room == Some(MAX_PLAINTEXT));
        }
    }
}

#[test]
fn other_content_types_come_through() {
    for pair in PAIRS {
        let info = info(pair, 1);
        let mut writer = Writer::new(info.clone());
        let mut reader = Reader::new(info.clone());
        for content_type in [ContentType::ALERT, ContentType::HANDSHAKE, DATA] {
            let record = seal(&mut writer, content_type, &[1, 0]);
            let (opened, content) = open(&mut reader, &whole(&record), None).unwrap();
            assert_eq!(
                (opened.content_type, &content[..]),
                (content_type, &[1, 0][..])
            );
            assert_eq!(opened.offloaded, Offloaded::None);
        }
    }
}

#[test]
fn an_unknown_epoch_is_an_error_of_ours() {
    let info = info(PAIRS[3], 1);
    let record = seal(&mut Writer::new(info.clone()), DATA, b"data");
    let error = open(&mut Reader::new(info), &[(record, Some(9))], None).unwrap_err();
    assert_eq!(error.violation, Violation::UnknownEpoch(9));
    assert_eq!(error.alert(), Alert::InternalError);
}

#[test]
fn a_header_is_waited_for() {
    let reader = Reader::new(info(PAIRS[3], 1));
    assert_eq!(reader.next_len(&[]), Ok(None));
    assert_eq!(reader.next_len(&[23, 3, 3, 0]), Ok(None));
}

/// Someone on the path shows the NIC, in packets that TCP drops, a longer record than there is, so that it numbers what follows
/// one too low, and then replays a record where the next one must be: it is authentic, but not there.
#[test]
fn a_replayed_record_is_refused_although_the_nic_decrypted_it() {
    for pair in PAIRS {
        let info = info(pair, 4);
        let (mut writer, mut reader) = (Writer::new(info.clone()), Reader::new(info.clone()));
        let records: Vec<_> = (0..4).map(|n| seal(&mut writer, DATA, &[n; 100])).collect();
        let offloaded = |n: usize| {
            [(
                decrypted(&info, info.sequence + n as u64, &records[n]),
                Some(0),
            )]
        };
        assert!(open(&mut reader, &offloaded(0), None).is_ok());
        assert!(open(&mut reader, &whole(&records[1]), None).is_ok());
        let error = open(&mut reader, &offloaded(1), None).unwrap_err();
        assert_eq!(error.violation, Violation::BadTag, "{pair:?}");
    }
}

#[test]
fn the_nic_is_believed_again_once_a_record_of_its_own_has_been_checked() {
    for pair in PAIRS {
        let info = info(pair, 4);
        let (mut writer, mut reader) = (Writer::new(info.clone()), Reader::new(info.clone()));
        let records: Vec<_> = (0..4).map(|n| seal(&mut writer, DATA, &[n; 100])).collect();
        assert!(open(&mut reader, &whole(&records[0]), None).is_ok());
        for (n, record) in records.iter().enumerate().skip(1) {
            assert_eq!(reader.agreed(), (n > 1).then(|| first_of(0)));
            if n == 1 {
                // Nor is there a short way past the check.
                assert_eq!(reader.open_decrypted(records[1].len(), DATA.0), None);
            }
            let plain = decrypted(&info, info.sequence + n as u64, record);
            let (opened, content) = open(&mut reader, &[(plain, Some(0))], Some(200)).unwrap();
            assert_eq!(content, [n as u8; 100]);
            assert_eq!(opened.offloaded, Offloaded::Full);
        }
    }
}

/// A context that begins with a record has been told that record's index. A second one of the same keys must not be taken for
/// the first, which may have followed other bytes than we.
#[test]
fn what_the_nic_is_believed_holds_for_one_context_only() {
    for pair in PAIRS {
        let info = info(pair, 4);
        let (mut writer, mut reader) = (Writer::new(info.clone()), Reader::new(info.clone()));
        let records: Vec<_> = (0..8).map(|n| seal(&mut writer, DATA, &[n; 100])).collect();
        let plain = |n: usize| decrypted(&info, info.sequence + n as u64, &records[n]);
        let open = |reader: &mut Reader, parts: &[(&[u8], ContextTag)]| {
            let mut parts: Vec<_> = parts
                .iter()
                .map(|(data, tag)| (data.to_vec(), *tag))
                .collect();
            let mut pieces: Vec<_> = parts
                .iter_mut()
                .map(|(data, tag)| Piece {
                    data: data[..].as_mut().into(),
                    decrypted: Some(*tag),
                })
                .collect();
            let opened = reader.open(&mut pieces, Output::InPlace);
            opened.map(|opened| opened.offloaded)
        };

        let first = reader.begin_context();
        assert_eq!(reader.agreed(), Some(first));
        // No check: not even of bytes that no NIC would pass on.
        let mut changed = plain(0);
        changed[20] ^= 1;
        assert_eq!(open(&mut reader, &[(&changed, first)]), Ok(Offloaded::Full));

        let second = reader.begin_context();
        assert_ne!(first, second);
        assert_eq!(reader.agreed(), Some(second));
        // What the first one still did is checked, and then it is believed.
        let mut changed = plain(1);
        changed[20] ^= 1;
        assert!(open(&mut reader, &[(&changed, first)]).is_err());
        assert!(open(&mut reader, &[(&plain(1), first)]).is_ok());
        assert_eq!(reader.agreed(), Some(first));
        assert!(open(&mut reader, &[(&plain(2), second)]).is_ok());
        assert_eq!(reader.agreed(), Some(second));

        // A record of both is checked, and so is the next.
        let both = plain(3);
        let (head, tail) = both.split_at(30);
        let parts = [(head, first), (tail, second)];
        assert_eq!(open(&mut reader, &parts), Ok(Offloaded::Full));
        assert_eq!(reader.agreed(), None);
        assert!(open(&mut reader, &[(&plain(2), second)]).is_err());
        assert!(open(&mut reader, &[(&plain(4), second)]).is_ok());
        assert_eq!(reader.agreed(), Some(second));
    }
}

#[test]
fn records_of_any_type_are_opened_for_those_who_judge_types() {
    for pair in PAIRS {
        for (content_type, content) in [(1, &b"of a type"[..]), (100, b"x"), (22, b""), (21, b"")] {
            let (mut writer, info) = (Writer::new(info(pair, 1)), info(pair, 1));
            let record = seal(&mut writer, ContentType(content_type), content);
            let mut strict = Reader::new(info.clone());
            let refused = strict.next_len(&record).is_err()
                || strict
                    .open(
                        &mut [Piece {
                            data: (&mut record.clone()[..]).into(),
                            decrypted: None,
                        }],
                        Output::InPlace,
                    )
                    .is_err();
            assert!(refused, "{pair:?} {content_type}");
            let mut reader = Reader::new(info);
            reader.open_any_type();
            let mut record = record;
            let pieces = &mut [Piece {
                data: (&mut record[..]).into(),
                decrypted: None,
            }];
            let opened = reader
                .open(pieces, Output::InPlace)
                .expect("an authentic record");
            assert_eq!(opened.content_type, ContentType(content_type));
            let Location::Record(range) = opened.content else {
                panic!("no buffer")
            };
            assert_eq!(&record[range], content);
        }
    }
}

#[test]
fn the_last_record_number_is_not_used() {
    for pair in PAIRS {
        let mut info = info(pair, 1);
        info.sequence = u64::MAX - 1;
        let (mut writer, mut reader) = (Writer::new(info.clone()), Reader::new(info.clone()));
        assert_eq!(writer.records_left(), 1);
        let mut record = seal(&mut writer, DATA, b"the last one");
        let sealed = record.clone();
        let pieces = &mut [Piece {
            data: (&mut record[..]).into(),
            decrypted: None,
        }];
        reader
            .open(pieces, Output::InPlace)
            .expect("a number is left");
        assert_eq!(writer.records_left(), 0);
        let error = reader.next_len(&sealed).expect_err("no number is left");
        assert_eq!(error.violation, Violation::NumbersUsedUp);
        // Nor does a NIC go on.
        for direction in [Direction::Transmit, Direction::Receive] {
            let mut engine = Engine::new(&info, direction);
            let mut walker = Walker::new(u64::MAX - 1);
            let mut output = vec![0; sealed.len()];
            walker
                .advance(&mut engine, &sealed[..], &mut output[..])
                .expect("a number is left");
            assert!(
                walker
                    .advance(&mut engine, &sealed[..], &mut output[..])
                    .is_err()
            );
        }
    }
}

#[test]
#[should_panic(expected = "record numbers are used up")]
fn a_writer_makes_no_record_without_a_number() {
    let mut info = info(PAIRS[3], 1);
    info.sequence = u64::MAX;
    seal(&mut Writer::new(info), DATA, b"one too many");
}
