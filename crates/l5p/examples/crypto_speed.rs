//! Speed of the engine in whole records and in packet-sized pieces, and the cost of the writer's
//! bookkeeping: `cargo run --release -p longshore-l5p --example crypto_speed`.
//!
//! `-- --short` measures each for a few milliseconds. It counts the thread's processor time, so that other load on the machine matters little.

use std::hint::black_box;
use std::time::Duration;

use l5p::tls::{
    Algorithm, ContentType, ContextTag, CryptoInfo, Direction, Engine, MAX_PLAINTEXT, Output,
    Piece, Reader, Version, Writer,
};
use l5p::{Layer5, Walker};
use rustix::time::{ClockId, clock_gettime};
use wire::SeqNum;

const ALGORITHMS: [(Algorithm, &str); 3] = [
    (Algorithm::Aes128Gcm, "AES-128-GCM"),
    (Algorithm::Aes256Gcm, "AES-256-GCM"),
    (Algorithm::ChaCha20Poly1305, "ChaCha20-Poly1305"),
];

const DATA: ContentType = ContentType::APPLICATION_DATA;

const FIRST: ContextTag = ContextTag {
    epoch: 0,
    number: 1,
};

const ROUNDS: usize = 5;
const ROUND: Duration = Duration::from_millis(200);
/// With `--short`.
const SHORT_ROUND: Duration = Duration::from_millis(1);

fn main() {
    println!(
        "{:18} {:>9} {:>16} {:>16} {:>14} {:>14}",
        "GB/s", "", "16 KiB updates", "1448 B updates", "seal", "open"
    );
    for (algorithm, name) in ALGORITHMS {
        for (direction, way) in [
            (Direction::Transmit, "encrypt"),
            (Direction::Receive, "decrypt"),
        ] {
            let whole = engine_speed(algorithm, direction, MAX_PLAINTEXT + 22);
            let packets = engine_speed(algorithm, direction, 1448);
            let (seal, open) = match direction {
                Direction::Transmit => (format!("{:14.2}", seal_speed(algorithm)), String::new()),
                Direction::Receive => (String::new(), format!("{:14.2}", open_speed(algorithm))),
            };
            println!("{name:18} {way:>9} {whole:16.2} {packets:16.2} {seal:>14} {open:>14}");
        }
    }
    println!();
    println!("mixed record, AES-128-GCM: {:.2} GB/s", mixed_speed());
    println!("digest in mid-record: {:.0} ns", digest_time());
    println!(
        "writer, one record framed, registered and released: {:.1} ns",
        writer_time()
    );
    println!(
        "reader, one record that the NIC decrypted: {:.1} ns",
        full_offload_time()
    );
}

fn keys(algorithm: Algorithm) -> CryptoInfo {
    CryptoInfo {
        version: Version::Tls13,
        algorithm,
        key: [7; 32],
        iv: [9; 12],
        sequence: 0,
    }
}

/// Median over the rounds of the nanoseconds that one call takes.
fn time(mut call: impl FnMut()) -> f64 {
    let short = std::env::args().any(|argument| argument == "--short");
    let round = if short { SHORT_ROUND } else { ROUND };
    let mut rounds: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let begin = processor_time();
            let mut calls = 0u32;
            loop {
                for _ in 0..64 {
                    call();
                }
                calls += 64;
                let elapsed = processor_time() - begin;
                if elapsed >= round {
                    return elapsed.as_nanos() as f64 / f64::from(calls);
                }
            }
        })
        .collect();
    rounds.sort_by(f64::total_cmp);
    rounds[ROUNDS / 2]
}

fn processor_time() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

fn gigabytes_per_second(nanoseconds: f64) -> f64 {
    MAX_PLAINTEXT as f64 / nanoseconds
}

fn framed() -> Vec<u8> {
    let layout = Writer::new(keys(Algorithm::Aes128Gcm)).record_layout(DATA, MAX_PLAINTEXT);
    [layout.header(), &[0x55; MAX_PLAINTEXT], layout.trailer()].concat()
}

fn sealed(algorithm: Algorithm) -> Vec<u8> {
    let mut record = vec![0; framed().len()];
    Writer::new(keys(algorithm)).seal_into(DATA, &[&[0x55; MAX_PLAINTEXT]], &mut record);
    record
}

fn engine_speed(algorithm: Algorithm, direction: Direction, update: usize) -> f64 {
    let mut engine = Engine::new(&keys(algorithm), direction);
    let input = framed();
    let mut output = vec![0; input.len()];
    let mut walker = Walker::new(0);
    gigabytes_per_second(time(|| {
        for (input, output) in input.chunks(update).zip(output.chunks_mut(update)) {
            let walked = walker.advance(&mut engine, input, output);
            let _ = black_box(walked.expect("a record"));
        }
    }))
}

fn seal_speed(algorithm: Algorithm) -> f64 {
    let mut writer = Writer::new(keys(algorithm));
    let content = vec![0x55; MAX_PLAINTEXT];
    let mut record = vec![0; MAX_PLAINTEXT + 64];
    gigabytes_per_second(time(|| {
        black_box(writer.seal_into(DATA, &[&content], &mut record));
    }))
}

fn open_speed(algorithm: Algorithm) -> f64 {
    let sealed = sealed(algorithm);
    let mut record = sealed.clone();
    let mut output = vec![0; MAX_PLAINTEXT + 1];
    // Opening decrypts the record where it is: each time it is a new copy, whose time does not count.
    let copying = time(|| black_box(&mut record).copy_from_slice(&sealed));
    let opening = time(|| {
        record.copy_from_slice(&sealed);
        // A new reader each time, so that the record number fits.
        let mut reader = Reader::new(keys(algorithm));
        let piece = Piece {
            data: record[..].as_mut().into(),
            decrypted: None,
        };
        let opened = reader.open(&mut [piece], Output::To(&mut output));
        let _ = black_box(opened.expect("a good record"));
    });
    gigabytes_per_second(opening - copying)
}

/// The NIC decrypted every other packet.
fn mixed_speed() -> f64 {
    let info = keys(Algorithm::Aes128Gcm);
    let record = sealed(info.algorithm);
    let mut plain = vec![0; record.len()];
    let mut engine = Engine::new(&info, Direction::Receive);
    let _ = Walker::new(0).advance(&mut engine, &record, &mut plain);
    let came: Vec<Vec<u8>> = record
        .chunks(1448)
        .zip(plain.chunks(1448))
        .enumerate()
        .map(|(i, (cipher, plain))| if i % 2 == 0 { cipher } else { plain }.to_vec())
        .collect();
    let mut packets = came.clone();
    let mut output = vec![0; MAX_PLAINTEXT + 1];
    let copy = |packets: &mut [Vec<u8>]| {
        for (packet, came) in packets.iter_mut().zip(&came) {
            packet.copy_from_slice(came);
        }
    };
    let copying = time(|| copy(black_box(&mut packets)));
    let opening = time(|| {
        copy(&mut packets);
        let mut reader = Reader::new(info.clone());
        let mut pieces: Vec<Piece<'_>> = packets
            .iter_mut()
            .enumerate()
            .map(|(i, data)| Piece {
                data: data[..].as_mut().into(),
                decrypted: (i % 2 == 1).then_some(FIRST),
            })
            .collect();
        let opened = reader.open(&mut pieces, Output::To(&mut output));
        let _ = black_box(opened.expect("a good record"));
    });
    gigabytes_per_second(opening - copying)
}

fn digest_time() -> f64 {
    let mut engine = Engine::new(&keys(Algorithm::Aes128Gcm), Direction::Transmit);
    let record = framed();
    engine.start(0, &record[..5]);
    engine.transform(5, (&record[5..5000]).into(), (&mut vec![0; 4995]).into());
    time(|| {
        black_box(engine.digest(5000));
    })
}

fn writer_time() -> f64 {
    let mut writer = Writer::new(keys(Algorithm::Aes128Gcm));
    let mut at = SeqNum(0);
    // As many records as a connection has in flight.
    for _ in 0..64 {
        at += writer.commit(at, MAX_PLAINTEXT).len;
    }
    let mut una = SeqNum(0);
    time(|| {
        black_box(writer.record_layout(DATA, MAX_PLAINTEXT));
        let record = writer.commit(at, MAX_PLAINTEXT);
        at += record.len;
        una += record.len;
        writer.acknowledged(una);
        black_box(writer.release_point(una));
    })
}

fn full_offload_time() -> f64 {
    let info = keys(Algorithm::Aes128Gcm);
    let mut reader = Reader::new(info.clone());
    // What the NIC decrypts in a context that it agrees on with the host is believed from the first record on.
    let context = reader.begin_context();
    let mut record = framed();
    time(|| {
        let len = reader.next_len(&record).expect("a record");
        black_box(len);
        let mut packets = record.chunks_mut(1448).map(|data| Piece {
            data: data.into(),
            decrypted: Some(context),
        });
        let mut pieces: [Piece<'_>; 12] =
            std::array::from_fn(|_| packets.next().expect("12 packets"));
        let opened = reader.open(&mut pieces, Output::InPlace);
        let _ = black_box(opened.expect("a good record"));
    })
}
