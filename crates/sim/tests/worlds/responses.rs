//! HTTP responses whose content a host's NIC decompresses, and software: on good links and bad ones, alone and inside TLS, over a reset of the
//! NIC, what is read is what was compressed.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use host::http::{ContentError, ReadResponseError};
use host::{Offload, SocketError};
use l5p::tls::Version;
use port::impair::Impairment;
use proptest::prelude::*;
use sim::{Suite, World, WorldConfig};

/// Content that can be compressed to about a third.
fn content(len: usize, seed: u64) -> Vec<u8> {
    let mut random = seed | 1;
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        match random % 4 {
            0 => bytes.extend_from_slice(b"a word "),
            1 => bytes.extend(random.to_le_bytes().map(|byte| b'a' + byte % 16)),
            _ => bytes.extend_from_slice(b"another one, "),
        }
    }
    bytes.truncate(len);
    bytes
}

fn gzip(content: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

/// One download from host 0 to host 1.
#[derive(Clone, Copy, Debug)]
struct Run {
    seed: u64,
    len: usize,
    tls: bool,
    version: Version,
    zstd: bool,
    /// Bytes of a chunk; 0 for content whose length is told.
    chunk: usize,
    impairment: Impairment,
    /// The NIC is reset when so much was read.
    reset_at: Option<usize>,
    /// Bytes that the content may have.
    limit: u64,
    by_nic: bool,
    /// Responses on one connection, one after the other.
    responses: u64,
    /// Of these, every second one is left to software.
    alternates: bool,
}

impl Default for Run {
    fn default() -> Self {
        Run {
            seed: 7,
            len: 6_000_000,
            tls: false,
            version: Version::Tls13,
            zstd: false,
            chunk: 0,
            impairment: Impairment::default(),
            reset_at: None,
            limit: 1 << 30,
            by_nic: true,
            responses: 1,
            alternates: false,
        }
    }
}

/// Bytes of content made by the NIC and by software, and how often software went on from the beginning.
type MadeBy = (u64, u64, u64);

impl Run {
    fn response(&self, content: &[u8]) -> Vec<u8> {
        let (coding, bytes) = match self.zstd {
            true => ("zstd", zstd::encode_all(content, 3).unwrap()),
            false => ("gzip", gzip(content)),
        };
        let head = format!("HTTP/1.1 200 OK\r\nContent-Encoding: {coding}\r\n");
        let mut all = head.into_bytes();
        if self.chunk == 0 {
            all.extend(format!("Content-Length: {}\r\n\r\n", bytes.len()).bytes());
            all.extend(bytes);
            return all;
        }
        all.extend(b"Transfer-Encoding: chunked\r\n\r\n");
        for chunk in bytes.chunks(self.chunk) {
            all.extend(format!("{:x}\r\n", chunk.len()).bytes());
            all.extend(chunk);
            all.extend(b"\r\n");
        }
        all.extend(b"0\r\n\r\n");
        all
    }

    fn run(self) -> Result<MadeBy, ContentError> {
        let mut world = World::new(WorldConfig {
            seed: self.seed,
            ..WorldConfig::default()
        });
        let (sender, receiver) = world.connect(4000, false);
        if self.tls {
            let suite = Suite {
                version: self.version,
                ..Suite::DEFAULT
            };
            world.secure((sender, receiver), suite, Offload::Both);
        }
        world.impair(0, self.impairment);
        let expected = content(self.len, self.seed);
        let bytes = self.response(&expected);
        let head_len = 4 + bytes.windows(4).position(|end| end == b"\r\n\r\n").unwrap();
        let mut reset_at = self.reset_at;
        for number in 0..self.responses {
            let by_nic = self.by_nic && !(self.alternates && number % 2 == 1);
            let limit = Some(self.limit);
            let started = world.stack(1).start_response(receiver, limit, by_nic);
            started.expect("a response is started");
            // As a request goes its way.
            while world.step() {}
            let (mut sent, mut read) = (0, Vec::new());
            while !world.stack(1).response(receiver).unwrap().is_done {
                let now = world.now();
                if reset_at.is_some_and(|at| read.len() >= at) {
                    reset_at = None;
                    world.reset_nic(1);
                }
                while sent < bytes.len() {
                    // The head goes alone, in a record of its own.
                    let end = if sent < head_len {
                        head_len
                    } else {
                        bytes.len()
                    };
                    match world.write(0, sender, &bytes[sent..end]) {
                        0 => break,
                        len => sent += len,
                    }
                }
                loop {
                    let had_head = world.stack(1).response(receiver).unwrap().head.is_some();
                    let result = world.stack(1).read_response(now, receiver, &mut read);
                    assert!(had_head || read.is_empty(), "the head comes first");
                    match result {
                        Ok(()) if world.stack(1).response(receiver).unwrap().is_done => break,
                        Ok(()) => {}
                        Err(ReadResponseError::Socket(SocketError::WouldBlock)) => {
                            assert!(world.step() || world.advance(), "the download is stuck");
                            break;
                        }
                        Err(ReadResponseError::Content(error)) => return Err(error),
                        Err(error) => panic!("{error}"),
                    }
                }
            }
            assert!(
                read == expected,
                "{} bytes of {}",
                read.len(),
                expected.len()
            );
            let info = world.stack(1).response(receiver).unwrap();
            assert_eq!(info.made, expected.len() as u64);
            assert_eq!(info.head.expect("a head").status, 200);
        }
        if let Some(tls) = world.stack(1).info(receiver).unwrap().tls
            && self.reset_at.is_none()
            && self.impairment == Impairment::default()
        {
            assert!(tls.records_full > 10 * tls.records_none, "{tls:?}");
        }
        world.close(1, receiver);
        let count = |name| world.counter(1, name);
        Ok((
            count("HttpBytesByNic"),
            count("HttpBytesBySoftware"),
            count("HttpFallbacks"),
        ))
    }
}

#[test]
fn on_a_good_link_the_nic_decodes_everything() {
    for tls in [false, true] {
        for zstd in [false, true] {
            for chunk in [0, 8000] {
                let run = Run {
                    tls,
                    zstd,
                    chunk,
                    responses: 2,
                    ..Run::default()
                };
                let all = 2 * run.len as u64;
                assert_eq!(run.run().unwrap(), (all, 0, 0), "{run:?}");
            }
        }
    }
}

#[test]
fn where_something_was_lost_software_goes_on_from_the_beginning() {
    for tls in [false, true] {
        let impairment = Impairment {
            loss: 0.002,
            ..Impairment::default()
        };
        let run = Run {
            tls,
            impairment,
            ..Run::default()
        };
        let (by_nic, by_software, fallbacks) = run.run().unwrap();
        assert!(by_nic > 0 && fallbacks == 1, "{by_nic} {fallbacks}");
        assert_eq!(by_software, run.len as u64);
    }
}

#[test]
fn behind_a_response_that_the_nic_has_decoded_software_decodes_the_next_one() {
    for tls in [false, true] {
        let run = Run {
            tls,
            responses: 4,
            alternates: true,
            ..Run::default()
        };
        let half = 2 * run.len as u64;
        assert_eq!(run.run().unwrap(), (half, half, 0), "{run:?}");
    }
}

#[test]
fn software_decodes_alone_where_the_nic_is_not_to() {
    let run = Run {
        by_nic: false,
        ..Run::default()
    };
    assert_eq!(run.run().unwrap(), (0, run.len as u64, 0));
}

#[test]
fn inside_tls_1_2_the_nic_decrypts_and_software_decodes() {
    let run = Run {
        tls: true,
        version: Version::Tls12,
        ..Run::default()
    };
    assert_eq!(run.run().unwrap(), (0, run.len as u64, 0));
}

#[test]
fn behind_a_reset_of_the_nic_software_goes_on() {
    for tls in [false, true] {
        let run = Run {
            tls,
            reset_at: Some(500_000),
            ..Run::default()
        };
        let (by_nic, by_software, fallbacks) = run.run().unwrap();
        assert!(by_nic >= 500_000 && fallbacks == 1, "{run:?}");
        assert_eq!(by_software, run.len as u64);
    }
}

/// The NIC has memory for three responses at a time.
#[test]
fn where_the_nic_has_no_memory_for_a_response_it_still_decrypts() {
    let mut world = World::new(WorldConfig::default());
    let pairs: Vec<_> = (0..5).map(|n| world.connect(4000 + n, false)).collect();
    for pair in &pairs {
        world.secure(*pair, Suite::DEFAULT, Offload::Both);
    }
    let len = 1_000_000;
    let expected = content(len, 3);
    let response = Run::default().response(&expected);
    let mut by_nic = 0;
    for (chosen, more_by_nic) in [(0..5, 3), (3..5, 2)] {
        let chosen = &pairs[chosen];
        for (_, receiver) in chosen {
            let started = world
                .stack(1)
                .start_response(*receiver, Some(1 << 30), true);
            started.expect("a response is started");
        }
        while world.step() {}
        let mut downloads = vec![(0, Vec::new()); chosen.len()];
        while downloads.iter().any(|(_, read)| read.len() < len) {
            let now = world.now();
            for (pair, (sent, read)) in chosen.iter().zip(&mut downloads) {
                let (sender, receiver) = *pair;
                match world.stack(0).write(now, sender, &response[*sent..]) {
                    Ok(len) => *sent += len,
                    Err(SocketError::WouldBlock) => {}
                    Err(error) => panic!("{error}"),
                }
                match world.stack(1).read_response(now, receiver, read) {
                    Ok(()) | Err(ReadResponseError::Socket(SocketError::WouldBlock)) => {}
                    Err(error) => panic!("{error}"),
                }
            }
            assert!(world.step() || world.advance(), "a download is stuck");
        }
        assert!(downloads.iter().all(|(_, read)| *read == expected));
        by_nic += more_by_nic * len as u64;
        assert_eq!(world.counter(1, "HttpBytesByNic"), by_nic);
    }
    for (_, receiver) in pairs {
        let tls = world.stack(1).info(receiver).unwrap().tls.unwrap();
        assert!(tls.records_full > 10 * tls.records_none, "{tls:?}");
    }
}

#[test]
fn a_bomb_is_refused_at_its_limit() {
    for tls in [false, true] {
        let run = Run {
            tls,
            limit: 1_000_000,
            ..Run::default()
        };
        let error = run.run().unwrap_err();
        assert!(
            matches!(
                error,
                ContentError::TooLarge {
                    limit: 1_000_000,
                    ..
                }
            ),
            "{error}"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), ..ProptestConfig::default() })]

    #[test]
    fn what_is_read_is_what_was_compressed(
        seed: u64,
        len in 0usize..900_000,
        tls: bool,
        zstd: bool,
        chunk in prop_oneof![Just(0usize), 500..60_000usize],
        loss in prop_oneof![Just(0.0), 0.0..0.05],
        reorder in prop_oneof![Just(0.0), 0.0..0.2],
        duplicate in prop_oneof![Just(0.0), 0.0..0.05],
        reset_at in prop::option::weighted(0.2, 0..200_000usize),
        responses in 1u64..4,
        alternates: bool,
    ) {
        let impairment = Impairment { loss, reorder, duplicate, ..Impairment::default() };
        let run = Run {
            seed, len, tls, zstd, chunk, impairment, reset_at, responses, alternates, ..Run::default()
        };
        run.run().unwrap();
    }
}

fn cases() -> u32 {
    let cases = std::env::var("LONGSHORE_CASES").ok();
    cases.map_or(48, |cases| cases.parse().expect("a number"))
}
