//! Streams of messages, as they are on the wire.

use std::io::Write;

use l5p::crc32c::Crc32c;
use l5p::nbd::Cookie;
use l5p::pdus::{MAX_FRONT, PduProtocol};
use l5p::{iscsi, nbd, nvme};
use testkit::fixtures;
use testkit::pdus::{Kind, PduStream, data};
use wire::iscsi::{
    DataIn, DataOut, Lun, NO_TAG, NopIn, NopOut, Pdu, ReadyToTransfer, RequestNumbers, Residual,
    ResponseNumbers, ScsiResponse,
};
use wire::nbd::{Chunk, ChunkType, Reply};

/// NVMe/TCP.
pub fn nvme(parameters: &nvme::Parameters) -> PduStream {
    let kinds = [
        data(3, 0, 1000),
        Kind::Ready,
        Kind::Capsule(96),
        data(31, 8192, 700),
        data(3, 1000, 1),
        data(32, 0, 40),
        Kind::Capsule(0),
        data(5, 4, 2500),
        Kind::Capsule(33),
    ];
    PduStream::new(parameters, &kinds)
}

pub fn nvme_parameters() -> Vec<(String, nvme::Parameters)> {
    let mut all = Vec::new();
    for (name, sender) in [
        ("controller", nvme::Role::Controller),
        ("host", nvme::Role::Host),
    ] {
        for (header, with_data, alignment) in [(false, false, 0), (true, true, 0), (false, true, 7)]
        {
            let parameters = nvme::Parameters {
                alignment,
                ..fixtures::nvme(sender, header, with_data)
            };
            all.push((
                format!("{name} {header} {with_data} {alignment}"),
                parameters,
            ));
        }
    }
    all
}

pub fn nbd_parameters(structured: bool) -> nbd::Parameters {
    nbd::Parameters {
        structured,
        tags: 9,
        max_data: 4096,
    }
}

/// Replies of an NBD server, and the data behind each.
pub fn nbd(structured: bool) -> Vec<u8> {
    let cookie = |tag, low| {
        Cookie {
            tag,
            generation: 77,
            low,
        }
        .to_bits()
    };
    let simple = |tag, error, low| Reply::Simple {
        error,
        cookie: cookie(tag, low),
    };
    let chunk = |tag, done, content| {
        Reply::Chunk(Chunk {
            done,
            cookie: cookie(tag, 4096),
            content,
        })
    };
    let at = |offset, len| ChunkType::Data {
        offset: (5u64 << 32) + offset,
        len,
    };
    let failed = ChunkType::Error {
        error: 5,
        message_len: 7,
        len: 7,
    };
    let replies = match structured {
        false => vec![
            (simple(1, 0, 1000), 1000),
            (simple(2, 0, 0), 0),
            (simple(3, 22, 600), 0),
            (simple(8, 0, 513), 513),
            (simple(4, 0, 4096), 4096),
            (simple(9, 0, 16), 16),
        ],
        true => vec![
            (chunk(1, false, at(4096, 700)), 700),
            (chunk(1, false, at(5000, 20)), 20),
            (
                chunk(
                    1,
                    true,
                    ChunkType::Hole {
                        offset: (5u64 << 32) + 4800,
                        len: 4,
                    },
                ),
                0,
            ),
            (chunk(2, true, ChunkType::None), 0),
            (chunk(3, true, failed), 7),
            (simple(4, 28, 0), 0),
            (chunk(5, true, at(4095, 9)), 9),
            (chunk(6, true, at(9000, 4096)), 4096),
            (chunk(9, false, at(4096, 30)), 30),
        ],
    };
    let mut stream = Vec::new();
    for (reply, behind) in replies {
        stream.extend_from_slice(reply.head().bytes());
        stream.extend_from_slice(&testkit::pattern_of(behind, behind as u32));
    }
    stream
}

pub fn iscsi_parameters(
    sender: iscsi::Role,
    header_digest: bool,
    data_digest: bool,
) -> iscsi::Parameters {
    iscsi::Parameters {
        sender,
        header_digest,
        data_digest,
        tags: 9,
        max_data: 8192,
    }
}

/// PDUs of a target, or of an initiator.
pub fn iscsi(parameters: &iscsi::Parameters) -> Vec<u8> {
    let numbers = ResponseNumbers {
        stat_sn: 1,
        exp_cmd_sn: 2,
        max_cmd_sn: 30,
    };
    let tag = |tag| {
        iscsi::TaskTag {
            tag,
            generation: 0x1234,
        }
        .to_bits()
    };
    let data_in = |t, offset, data_len, ends: bool| {
        Pdu::DataIn(DataIn {
            is_final: ends,
            status: ends.then_some(0),
            task_tag: tag(t),
            numbers,
            data_sn: 0,
            offset,
            residual: Residual::None,
            data_len,
        })
    };
    let data_out = |t, offset, data_len| {
        Pdu::DataOut(DataOut {
            is_final: true,
            lun: Lun::default(),
            task_tag: tag(t),
            transfer_tag: 7,
            exp_stat_sn: 4,
            data_sn: 0,
            offset,
            data_len,
        })
    };
    let nop_in = NopIn {
        lun: Lun::default(),
        task_tag: NO_TAG,
        transfer_tag: 5,
        numbers,
        data_len: 0,
    };
    let nop_out = NopOut {
        immediate: true,
        lun: Lun::default(),
        task_tag: NO_TAG,
        transfer_tag: 5,
        numbers: RequestNumbers::default(),
        data_len: 0,
    };
    let response = ScsiResponse {
        response: 0,
        status: 2,
        task_tag: tag(3),
        numbers,
        data_count: 0,
        residual: Residual::Underflow(5),
        data_len: 21,
    };
    let ready = ReadyToTransfer {
        lun: Lun::default(),
        task_tag: tag(4),
        transfer_tag: 77,
        numbers,
        r2t_sn: 0,
        offset: 4096,
        len: 900,
    };
    let pdus = match parameters.sender {
        iscsi::Role::Target => vec![
            data_in(1, 0, 1001, false),
            Pdu::NopIn(nop_in),
            data_in(8, 70_000, 2, true),
            Pdu::ScsiResponse(response),
            data_in(9, 0, 40, false),
            Pdu::ReadyToTransfer(ready),
            data_in(2, 4096, 3000, true),
        ],
        iscsi::Role::Initiator => vec![
            data_out(1, 0, 1001),
            Pdu::NopOut(nop_out),
            data_out(8, 70_000, 2),
            data_out(2, 4096, 3000),
        ],
    };
    let framing = parameters.framing();
    let mut stream = Vec::new();
    for pdu in pdus {
        let mut front = [0; MAX_FRONT];
        let layout = framing.emit(&pdu, &mut front);
        stream.extend_from_slice(&front[..layout.data_start as usize]);
        let mut covered = testkit::pattern_of(layout.data_len as usize, layout.data_len);
        covered.resize((layout.data_len + layout.padding) as usize, 0);
        stream.extend_from_slice(&covered);
        if layout.data_digest {
            stream.extend_from_slice(&Crc32c::of(&covered).to_le_bytes());
        }
    }
    stream
}

/// Words, some of which are patterns.
pub fn text(len: usize) -> Vec<u8> {
    let mut dice = testkit::Dice::new(5);
    let words = [
        "needle ",
        "hay ",
        "stack ",
        "needless ",
        "abcabcabd ",
        "x1y22z333 ",
        "\n",
    ];
    let mut text = Vec::new();
    while text.len() < len {
        let word = if dice.rarely(12) {
            dice.of(&words)
        } else {
            "some hay, and "
        };
        text.extend_from_slice(word.as_bytes());
    }
    text.truncate(len);
    text
}

pub const PATTERNS: &str = "needle\nless\n/abc(abd)?x*/\n/[0-9]{2,3}z/\nstack hay\n";

/// Responses with the same content, coded and framed in several ways.
pub fn http() -> Vec<(&'static str, Vec<u8>)> {
    let content = text(40_000);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&content).expect("memory takes all");
    let gzip = gzip.finish().expect("memory takes all");
    let zstd = zstd::encode_all(&content[..], 3).expect("memory takes all");
    let head = |coding: &str, framing: &str| {
        format!("HTTP/1.1 200 OK\r\nServer: x\r\nContent-Encoding: {coding}\r\n{framing}\r\n")
            .into_bytes()
    };
    let sized = |coding, body: &[u8]| {
        let mut all = head(coding, &format!("Content-Length: {}\r\n", body.len()));
        all.extend_from_slice(body);
        all
    };
    let chunked = |coding, body: &[u8], len| {
        let mut all = head(coding, "Transfer-Encoding: chunked\r\n");
        for chunk in body.chunks(len) {
            all.extend(format!("{:x};a=b\r\n", chunk.len()).bytes());
            all.extend_from_slice(chunk);
            all.extend(b"\r\n");
        }
        all.extend(b"0\r\nTrailer: yes\r\n\r\n");
        all
    };
    let to_end = [head("gzip", ""), gzip.clone()].concat();
    let mut damaged = sized("gzip", &gzip);
    let middle = damaged.len() / 2;
    damaged[middle] ^= 0x55;
    let mut behind = sized("zstd", &zstd);
    behind.extend(b"HTTP/1.1 200 OK\r\n");
    vec![
        ("gzip", sized("gzip", &gzip)),
        ("zstd", sized("zstd", &zstd)),
        ("gzip in chunks", chunked("x-gzip", &gzip, 700)),
        ("zstd in chunks", chunked("zstd", &zstd, 99)),
        ("gzip to the end", to_end),
        ("gzip damaged", damaged),
        ("gzip cut short", sized("gzip", &gzip[..gzip.len() - 9])),
        ("zstd and more", behind),
        ("not coded", sized("identity", &content[..3000])),
        ("unknown", sized("br", &content[..3000])),
        (
            "missing",
            b"HTTP/1.1 404 Not Found\r\nContent-Length: 5\r\n\r\nnone!".to_vec(),
        ),
        (
            "two lengths",
            b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nnone!!".to_vec(),
        ),
        ("no response", b"SSH-2.0-OpenSSH_9.6\r\n".to_vec()),
    ]
}
