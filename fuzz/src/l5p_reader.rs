//! Records in pieces, some of which the NIC has decrypted: good ones open whatever the mix, changed ones don't, and
//! arbitrary bytes never panic.

use l5p::Walker;
use l5p::tls::{
    Algorithm, ContentType, ContextTag, CryptoInfo, Direction, Engine, Location, MAX_PLAINTEXT,
    Output, Piece, Reader, TlsError, Version, Writer,
};

const VERSIONS: [Version; 2] = [Version::Tls12, Version::Tls13];

const ALGORITHMS: [Algorithm; 3] = [
    Algorithm::Aes128Gcm,
    Algorithm::Aes256Gcm,
    Algorithm::ChaCha20Poly1305,
];

/// Bytes: version and algorithm, length of the pieces, which of them were decrypted, where to change a byte, by
/// what; the rest is content, and also bytes that somebody sent.
pub fn run(data: &[u8]) {
    let [choice, piece, decrypted, at, change, rest @ ..] = data else {
        return;
    };
    let rest = &rest[..rest.len().min(MAX_PLAINTEXT)];
    let info = CryptoInfo {
        version: VERSIONS[usize::from(choice & 1)],
        algorithm: ALGORITHMS[usize::from(choice >> 1) % 3],
        key: [1; 32],
        iv: [2; 12],
        sequence: 7,
    };
    let room = (choice & 0x40 != 0).then_some(rest.len() + usize::from(choice & 0x20));
    let piece = usize::from(*piece).max(1);

    let mut record = vec![0; Writer::new(info.clone()).record_len(rest.len())];
    Writer::new(info.clone()).seal_into(ContentType::APPLICATION_DATA, &[rest], &mut record);
    let opened = open(&info, &record, piece, *decrypted, room).expect("a good record");
    assert_eq!(opened, rest);

    let body = record.len() - 5;
    record[5 + usize::from(*at) % body] ^= change;
    // A NIC passes on a packet in which a check failed as it came.
    let changed = open(&info, &record, piece, 0, room);
    assert_eq!(changed.is_ok(), *change == 0);

    let mut reader = Reader::new(info.clone());
    let mut theirs = rest.to_vec();
    if let Ok(Some(len)) = reader.next_len(&theirs)
        && len <= theirs.len()
    {
        let mark = (decrypted & 1 != 0).then_some(ContextTag {
            epoch: u16::from(decrypted >> 1),
            number: 1,
        });
        let piece = Piece {
            data: theirs[..len].as_mut().into(),
            decrypted: mark,
        };
        let _ = reader.open(&mut [piece], Output::InPlace);
    }
}

/// Opens a record, of which the NIC has decrypted the pieces that have a bit set.
fn open(
    info: &CryptoInfo,
    record: &[u8],
    piece: usize,
    decrypted: u8,
    room: Option<usize>,
) -> Result<Vec<u8>, TlsError> {
    let mut plain = vec![0; record.len()];
    let mut engine = Engine::new(info, Direction::Receive);
    let _ = Walker::new(info.sequence).advance(&mut engine, record, &mut plain);
    let is_decrypted = |n: usize| decrypted >> (n % 8) & 1 != 0;
    let mut memory: Vec<u8> = record
        .chunks(piece)
        .zip(plain.chunks(piece))
        .enumerate()
        .flat_map(|(n, (cipher, plain))| if is_decrypted(n) { plain } else { cipher })
        .copied()
        .collect();
    let mut pieces: Vec<Piece<'_>> = memory
        .chunks_mut(piece)
        .enumerate()
        .map(|(n, data)| Piece {
            data: data.into(),
            decrypted: is_decrypted(n).then_some(ContextTag {
                epoch: 0,
                number: 1,
            }),
        })
        .collect();
    let mut output = vec![0; room.unwrap_or(0)];
    let target = match room {
        Some(_) => Output::To(&mut output),
        None => Output::InPlace,
    };
    let opened = Reader::new(info.clone()).open(&mut pieces, target)?;
    Ok(match opened.content {
        Location::Output(len) => output[..len].to_vec(),
        Location::Record(range) => memory[range].to_vec(),
    })
}
