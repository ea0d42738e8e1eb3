//! A stream of bytes through a walker and the TLS engine, whole and in pieces: both must come to the same end.

use l5p::tls::{Algorithm, CryptoInfo, Direction, Engine, Version};
use l5p::{NotAHeader, Walked, Walker};

const VERSIONS: [Version; 2] = [Version::Tls12, Version::Tls13];

const ALGORITHMS: [Algorithm; 3] = [
    Algorithm::Aes128Gcm,
    Algorithm::Aes256Gcm,
    Algorithm::ChaCha20Poly1305,
];

/// The first byte chooses version, algorithm and direction, the second the length of the pieces.
pub fn run(data: &[u8]) {
    let [choice, piece, stream @ ..] = data else {
        return;
    };
    let info = CryptoInfo {
        version: VERSIONS[usize::from(choice & 1)],
        algorithm: ALGORITHMS[usize::from(choice >> 1) % 3],
        key: [1; 32],
        iv: [2; 12],
        sequence: 0,
    };
    let direction = match choice & 0x80 {
        0 => Direction::Receive,
        _ => Direction::Transmit,
    };
    let whole = walk(&info, direction, stream, stream.len().max(1));
    let pieces = walk(&info, direction, stream, usize::from(*piece).max(1));
    assert_eq!(whole.0, pieces.0);
    assert_eq!(whole.1, pieces.1);
    assert_eq!(whole.2, pieces.2);
}

type Outcome = (Result<Walked, NotAHeader>, u64, Vec<u8>);

/// What was walked, the number of the message that comes next, and the bytes up to where a header was missed.
fn walk(info: &CryptoInfo, direction: Direction, stream: &[u8], piece: usize) -> Outcome {
    let mut engine = Engine::new(info, direction);
    let mut walker = Walker::new(0);
    let mut output = vec![0; stream.len()];
    let mut total = Walker::new(0)
        .absorb(&mut engine, &[])
        .expect("nothing to refuse");
    let pieces = stream.chunks(piece).zip(output.chunks_mut(piece));
    for (n, (input, output_piece)) in pieces.enumerate() {
        match walker.advance(&mut engine, input, output_piece) {
            Ok(walked) => {
                total.messages_finished += walked.messages_finished;
                if walked.integrity == l5p::Integrity::Bad {
                    total.integrity = walked.integrity;
                }
            }
            Err(refused) => {
                let at = (n * piece) as i64 + refused.at;
                output.truncate(at as usize);
                return (Err(NotAHeader { at }), walker.index(), output);
            }
        }
    }
    (Ok(total), walker.index(), output)
}
