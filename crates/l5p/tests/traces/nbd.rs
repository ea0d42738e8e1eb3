//! A client of NBD: its handshake, and its requests.

use l5p::nbd::{Cookie, Handshake, Outcome, Requests};
use testkit::written;
use wire::nbd::{
    Chunk, ChunkType, Kind, MAGIC, OPTION_MAGIC, OPTION_REPLY_MAGIC, Reply, Request, flag,
    handshake, info, option, reply_type,
};

fn greeting(flags: u16) -> Vec<u8> {
    let parts = [MAGIC.to_be_bytes(), OPTION_MAGIC.to_be_bytes()].concat();
    [parts, flags.to_be_bytes().to_vec()].concat()
}

fn reply(option: u32, kind: u32, data: &[u8]) -> Vec<u8> {
    let mut bytes = OPTION_REPLY_MAGIC.to_be_bytes().to_vec();
    for word in [option, kind, data.len() as u32] {
        bytes.extend(word.to_be_bytes());
    }
    bytes.extend_from_slice(data);
    bytes
}

fn export(size: u64, flags: u16) -> Vec<u8> {
    let (size, flags) = (size.to_be_bytes(), flags.to_be_bytes());
    reply(
        option::GO,
        reply_type::INFO,
        &[&info::EXPORT.to_be_bytes()[..], &size, &flags].concat(),
    )
}

fn blocks(sizes: [u32; 3]) -> Vec<u8> {
    let sizes: Vec<u8> = sizes.iter().flat_map(|size| size.to_be_bytes()).collect();
    reply(
        option::GO,
        reply_type::INFO,
        &[&info::BLOCK_SIZE.to_be_bytes()[..], &sizes].concat(),
    )
}

#[test]
fn handshakes() {
    let good = greeting(handshake::FIXED_NEWSTYLE | handshake::NO_ZEROES);
    let structured = reply(option::STRUCTURED_REPLY, reply_type::ACK, &[]);
    let simple = reply(
        option::STRUCTURED_REPLY,
        reply_type::ERROR_UNSUPPORTED,
        b"no",
    );
    let done = reply(option::GO, reply_type::ACK, &[]);
    let disk = export(3 << 30, 0x6d);
    let tls = reply(option::STARTTLS, reply_type::ACK, &[]);
    let mut sessions: Vec<(String, bool, Vec<Vec<u8>>)> = Vec::new();
    let mut add = |name: &str, secures: bool, parts: &[&Vec<u8>]| {
        sessions.push((
            name.to_owned(),
            secures,
            parts.iter().map(|part| part.to_vec()).collect(),
        ));
    };
    let oldest = [
        (7u64 << 20).to_be_bytes().to_vec(),
        5u16.to_be_bytes().to_vec(),
    ]
    .concat();
    let padded = [oldest.clone(), vec![0; 124]].concat();
    let no_go = reply(option::GO, reply_type::ERROR_UNSUPPORTED, &[]);
    add(
        "structured",
        false,
        &[
            &good,
            &structured,
            &disk,
            &blocks([512, 4096, 1 << 20]),
            &done,
        ],
    );
    add("simple", false, &[&good, &simple, &disk, &done]);
    for sizes in [
        [1, 1, 1],
        [3, 4096, 1 << 20],
        [4096, 512, 1 << 20],
        [512, 4096, 256],
        [1 << 16, 1 << 16, u32::MAX],
        [1 << 20, 1 << 20, 1 << 21],
    ] {
        add(
            &format!("blocks {sizes:?}"),
            false,
            &[&good, &structured, &disk, &blocks(sizes), &done],
        );
    }
    add("no export", false, &[&good, &structured, &done]);
    add(
        "too large",
        false,
        &[&good, &structured, &export(1 << 63, flag::HAS_FLAGS), &done],
    );
    add(
        "other info",
        false,
        &[
            &good,
            &structured,
            &reply(option::GO, reply_type::INFO, &[0, 9, 1]),
            &disk,
            &done,
        ],
    );
    add(
        "short info",
        false,
        &[
            &good,
            &structured,
            &reply(option::GO, reply_type::INFO, &[0]),
            &disk,
        ],
    );
    add(
        "short export",
        false,
        &[
            &good,
            &structured,
            &reply(option::GO, reply_type::INFO, &[0, 0, 1]),
        ],
    );
    add("by name", false, &[&good, &simple, &no_go, &oldest]);
    add(
        "by name with zeroes",
        false,
        &[
            &greeting(handshake::FIXED_NEWSTYLE),
            &simple,
            &no_go,
            &padded,
        ],
    );
    add("TLS", true, &[&good, &tls, &structured, &disk, &done]);
    add(
        "no TLS",
        true,
        &[
            &good,
            &reply(option::STARTTLS, reply_type::ERROR_POLICY, b"not here"),
        ],
    );
    add(
        "another option",
        false,
        &[&good, &reply(option::LIST, reply_type::ACK, &[])],
    );
    add(
        "another kind",
        false,
        &[
            &good,
            &reply(option::STRUCTURED_REPLY, reply_type::SERVER, &[]),
        ],
    );
    add(
        "long",
        false,
        &[
            &good,
            &reply(option::STRUCTURED_REPLY, reply_type::ACK, &[0; 70_000]),
        ],
    );
    add("no NBD", false, &[&b"HTTP/1.1".to_vec()]);
    add(
        "old",
        false,
        &[&[
            &MAGIC.to_be_bytes()[..],
            &0x0000_4202_8186_1253_u64.to_be_bytes(),
            &[0; 8],
        ]
        .concat()],
    );
    add("not fixed", false, &[&greeting(0), &oldest, &padded]);
    for error in 1..=10 {
        let no = reply(
            option::GO,
            reply_type::ERROR | error,
            b"the\x07 server's words",
        );
        add(&format!("error {error}"), false, &[&good, &structured, &no]);
    }
    let mut lines = Vec::new();
    for (name, secures, parts) in sessions {
        lines.push(name);
        let mut client = Handshake::new("disk", secures);
        for part in parts {
            // What is there of it first is not enough.
            let mut out = Vec::new();
            let early = client.advance(&part[..part.len() - 1], &mut out);
            let bytes = match early {
                Ok((used, _)) => &part[used..],
                Err(_) => &part[..],
            };
            let said = client.advance(bytes, &mut out);
            if let Ok((_, Some(Outcome::StartTls))) = said {
                client.secured(&mut out);
            }
            let early = early.map_or(0, |(used, _)| used);
            let said_text = match &said {
                Ok((used, outcome)) => format!("{used} {outcome:?}"),
                Err(error) => error.to_string(),
            };
            if let Ok((_, Some(Outcome::Export(export)))) = said {
                lines.push(format!(
                    "  {} {}",
                    export.is_read_only(),
                    export.can_flush()
                ));
            }
            lines.push(format!("  {early} {said_text} | {}", written::bytes(&out)));
            if said.is_err() {
                break;
            }
        }
    }
    written::compare(env!("CARGO_MANIFEST_DIR"), "nbd_handshakes", &lines);
}

/// Requests of each kind, and answers of which some make no sense.
#[test]
fn requests() {
    let mut lines = Vec::new();
    for structured in [false, true] {
        let cases = cases(structured);
        for (name, replies) in cases {
            let mut requests = Requests::new(3, structured);
            let mut cookies = Vec::new();
            for (kind, offset, len) in [
                (Kind::Read, (7u64 << 32) + 4096, 1000),
                (Kind::Write, 512, 2048),
                (Kind::Flush, 0, 0),
                (Kind::Trim, 0, 9),
            ] {
                let request = Request {
                    kind,
                    fua: false,
                    no_hole: false,
                    do_not_fragment: false,
                    fast_zero: false,
                    cookie: 1,
                    offset,
                    len,
                };
                match requests.begin(request) {
                    Some((tag, sent)) => {
                        if lines.len() < 4 {
                            lines.push(format!(
                                "{tag} {:?} {}",
                                Cookie::from_bits(sent.cookie),
                                written::bytes(&sent.to_bytes())
                            ));
                        }
                        cookies.push(sent.cookie);
                    }
                    None if lines.len() < 4 => lines.push("no room".to_owned()),
                    None => {}
                }
            }
            let mut line = format!("{structured} {name}:");
            for reply in replies(&cookies) {
                match requests.handle_reply(&reply) {
                    Ok(incoming) => line += &format!(" {incoming:?}"),
                    Err(error) => {
                        line += &format!(" {error}");
                        break;
                    }
                }
                requests.end(b"some\x01 words that are longer");
                while let Some(ended) = requests.poll_ended() {
                    let result = ended.result.map_err(|error| error.to_string());
                    line += &format!(" [{} {result:?}]", ended.tag);
                    requests.release(ended.tag);
                }
            }
            lines.push(format!("{line} {}", requests.in_use()));
        }
    }
    written::compare(env!("CARGO_MANIFEST_DIR"), "nbd_requests", &lines);
}

type Replies = Box<dyn Fn(&[u64]) -> Vec<Reply>>;

fn cases(structured: bool) -> Vec<(&'static str, Replies)> {
    const AT: u64 = (7 << 32) + 4096;
    fn simple(error: u32, cookie: u64) -> Reply {
        Reply::Simple { error, cookie }
    }
    fn chunk(done: bool, cookie: u64, content: ChunkType) -> Reply {
        Reply::Chunk(Chunk {
            done,
            cookie,
            content,
        })
    }
    fn data(offset: u64, len: u32) -> ChunkType {
        ChunkType::Data { offset, len }
    }
    let mut all: Vec<(&'static str, Replies)> = vec![
        (
            "all well",
            Box::new(|c| vec![simple(0, c[1]), simple(0, c[2])]),
        ),
        (
            "twice",
            Box::new(|c| vec![simple(0, c[1]), simple(0, c[1])]),
        ),
        ("unknown tag", Box::new(|c| vec![simple(0, c[1] | 9 << 48)])),
        (
            "another generation",
            Box::new(|c| vec![simple(0, c[1] ^ 1 << 32)]),
        ),
        ("another low", Box::new(|c| vec![simple(0, c[0] ^ 1)])),
    ];
    for error in [1, 5, 12, 22, 28, 75, 95, 108, 7] {
        all.push((
            "error",
            Box::new(move |c| vec![simple(error, c[0]), simple(error, c[1])]),
        ));
    }
    all.push(("read", Box::new(|c| vec![simple(0, c[0])])));
    if structured {
        all.push((
            "one chunk",
            Box::new(|c| vec![chunk(true, c[0], data(AT, 1000))]),
        ));
        all.push((
            "three",
            Box::new(|c| {
                vec![
                    chunk(false, c[0], data(AT + 900, 100)),
                    chunk(
                        false,
                        c[0],
                        ChunkType::Hole {
                            offset: AT,
                            len: 400,
                        },
                    ),
                    chunk(true, c[0], data(AT + 400, 500)),
                ]
            }),
        ));
        all.push((
            "one and none",
            Box::new(|c| {
                vec![
                    chunk(false, c[0], data(AT, 1000)),
                    chunk(true, c[0], ChunkType::None),
                ]
            }),
        ));
        all.push((
            "too few",
            Box::new(|c| vec![chunk(true, c[0], data(AT, 999))]),
        ));
        all.push((
            "hole at the end",
            Box::new(|c| {
                vec![
                    chunk(false, c[0], data(AT, 10)),
                    chunk(
                        true,
                        c[0],
                        ChunkType::Hole {
                            offset: AT + 10,
                            len: 990,
                        },
                    ),
                ]
            }),
        ));
        all.push((
            "overlap",
            Box::new(|c| {
                vec![
                    chunk(false, c[0], data(AT, 500)),
                    chunk(true, c[0], data(AT + 499, 501)),
                ]
            }),
        ));
        all.push((
            "before",
            Box::new(|c| vec![chunk(false, c[0], data(AT - 1, 10))]),
        ));
        all.push((
            "behind",
            Box::new(|c| vec![chunk(false, c[0], data(AT + 991, 10))]),
        ));
        all.push((
            "far",
            Box::new(|c| vec![chunk(false, c[0], data(AT + (1 << 32), 10))]),
        ));
        all.push((
            "data of a write",
            Box::new(|c| vec![chunk(false, c[1], data(512, 10))]),
        ));
        all.push((
            "done",
            Box::new(|c| {
                vec![
                    chunk(false, c[1], ChunkType::None),
                    chunk(true, c[1], ChunkType::None),
                    chunk(true, c[0], ChunkType::None),
                ]
            }),
        ));
        for (error, message_len, len, done) in [
            (5, 4, 4, true),
            (28, 4, 12, false),
            (0, 0, 0, true),
            (22, 0, 0, true),
        ] {
            let content = ChunkType::Error {
                error,
                message_len,
                len,
            };
            all.push((
                "error chunk",
                Box::new(move |c| vec![chunk(done, c[0], content), chunk(true, c[0], data(AT, 7))]),
            ));
        }
    }
    all
}
