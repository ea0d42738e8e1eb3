//! Whatever a host writes into its send ring, the device answers by a frame, an effect or an error completion, gives
//! every slot back, and lets no plaintext of an offloaded flow out.

use std::sync::Arc;
use std::time::Instant;

use l5p::Layers;
use l5p::nvme::{Parameters, Role};
use l5p::tls::{Algorithm, ContentType, CryptoInfo, Version, Writer};
use nic::ring::{
    ContextId, Direction, FunctionConfig, HostFunction, Region, SLOT_WORDS, SendDescriptor,
    function,
};
use nic::{Nic, NicConfig};
use wire::ethernet::MacAddr;
use wire::nvme::{C2HData, Pdu};
use wire::packet::{self, MAX_TCP_HEADERS_LEN};
use wire::{FlowKey, SeqNum, tcp};

const MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const PEER: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);
const MEMORY: usize = 1 << 16;
/// Bytes of content of each record.
const CONTENT: usize = 1000;
/// Bytes of each record, and of each PDU that is in none.
const MESSAGE: usize = CONTENT + 22;
/// Bytes of each PDU in records: it takes two.
const PDU_IN_RECORDS: usize = 2 * CONTENT;
const PLAIN: u8 = b'P';

/// Bytes of one slot's description: what to do with it, the opcode, six bytes of its first word, its second word,
/// and two words more.
const STEP: usize = 32;

/// What the context offloads.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Protocols {
    Tls,
    Nvme,
    NvmeInTls,
}

/// Takes `data` for a list of slots; how many bytes are left over chooses the protocols.
pub fn run(data: &[u8]) {
    let protocols = match data.len() % STEP % 3 {
        0 => Protocols::Tls,
        1 => Protocols::Nvme,
        _ => Protocols::NvmeInTls,
    };
    let mut nic = Nic::new(NicConfig::new([1; 16]));
    let (mut host, device) = function(FunctionConfig {
        send_entries: 64,
        receive_entries: 64,
        contexts: 4,
        ..FunctionConfig::new(MAC)
    });
    nic.attach(device).expect("a free address");
    offload(&mut host, protocols);
    let mut at = SeqNum(0);
    for step in data.chunks_exact(STEP) {
        if host.queues[0].send.free(1) == 0 {
            work(&mut nic, &mut host, protocols);
        }
        let words = slot(step, &mut at, protocols);
        host.queues[0]
            .send
            .post_raw(&words)
            .expect("room for a slot");
        if step[0] & 2 != 0 {
            work(&mut nic, &mut host, protocols);
        }
    }
    work(&mut nic, &mut host, protocols);
    let send = &mut host.queues[0].send;
    assert_eq!(send.completed(), send.posted(), "every slot comes back");
}

fn flow() -> FlowKey {
    FlowKey::new(
        "10.0.0.1:443".parse().expect("an address"),
        "10.0.0.2:5000".parse().expect("an address"),
    )
}

/// Registers memory full of framed messages, and makes a context for them.
fn offload(host: &mut HostFunction, protocols: Protocols) {
    let crypto = CryptoInfo {
        version: Version::Tls13,
        algorithm: Algorithm::Aes128Gcm,
        key: [3; 32],
        iv: [4; 12],
        sequence: 0,
    };
    let parameters = Parameters {
        sender: Role::Controller,
        header_digest: false,
        data_digest: true,
        alignment: 0,
        max_pdu: 1 << 20,
        commands: 100,
    };
    let (messages, layers) = match protocols {
        Protocols::Tls => (records(&crypto, &[PLAIN; CONTENT]), Layers::of(&crypto)),
        Protocols::Nvme => (pdu(&parameters, MESSAGE), Layers::of(&parameters)),
        Protocols::NvmeInTls => (
            records(&crypto, &pdu(&parameters, PDU_IN_RECORDS)),
            Layers::of(&crypto).carrying(&parameters),
        ),
    };
    let region = Region::anonymous(MEMORY);
    for at in (0..MEMORY - messages.len()).step_by(messages.len()) {
        region.write(at as u64, &messages);
    }
    host.register(Arc::new(region)).expect("a free id");
    let create = SendDescriptor::CreateContext {
        context: ContextId(0),
        direction: Direction::Transmit,
        flow: flow(),
        tcpsn: SeqNum(0),
        layers: &layers,
    };
    host.queues[0].send.post(&create).expect("an empty ring");
}

/// Records of this content.
fn records(crypto: &CryptoInfo, content: &[u8]) -> Vec<u8> {
    let writer = Writer::new(crypto.clone());
    let layout = writer.record_layout(ContentType::APPLICATION_DATA, CONTENT);
    let contents = content.chunks_exact(CONTENT);
    contents
        .flat_map(|content| [layout.header(), content, layout.trailer()].concat())
        .collect()
}

/// A PDU of so many bytes, without its digest.
fn pdu(parameters: &Parameters, len: usize) -> Vec<u8> {
    let pdu = Pdu::C2HData(C2HData {
        cccid: 7,
        data_offset: 0,
        data_len: len as u32 - 28,
        last: true,
        success: false,
    });
    let mut bytes = vec![PLAIN; len];
    pdu.emit(&parameters.framing(), &mut bytes);
    bytes
}

/// The slot that `step` describes. A `Send` always has a context and the flow's headers, and by
/// default goes on where the last one ended.
fn slot(step: &[u8], at: &mut SeqNum, protocols: Protocols) -> [u64; SLOT_WORDS] {
    let word = |n: usize| u64::from_le_bytes(step[n..n + 8].try_into().expect("8 bytes"));
    let mut words = [0; SLOT_WORDS];
    let mut head = [
        step[1], step[2], step[3], step[4], step[5], 0, step[6], step[7],
    ];
    (words[1], words[2], words[3]) = (word(8), word(16), word(24));
    match step[1] {
        1 => {
            // Mostly the whole header, in the right place.
            words[1] = words[1] & !0xffff_ffff | words[1] & 3;
            if step[0] & 4 != 0 {
                *at = SeqNum(words[1] as u32 ^ words[2] as u32);
            }
            let header = header(*at);
            head[2] = header.len() as u8;
            for (word, bytes) in words[8..].iter_mut().zip(header.chunks(8)) {
                let mut padded = [0; 8];
                padded[..bytes.len()].copy_from_slice(bytes);
                *word = u64::from_le_bytes(padded);
            }
            *at += (words[1] >> 32) as u32;
        }
        5 if step[0] & 1 != 0 => {
            // Start and resume, then offset and length of the prefix.
            let (start, resume) = (words[2] as u32, (words[2] >> 32) as u32);
            words[4] = words[3] & 0xffff_ffff;
            words[5] = words[3] >> 32;
            words[3] = u64::from(start) | u64::from(resume) << 32;
            words[2] = u64::from(start) / MESSAGE as u64;
            *at = SeqNum(resume);
            if protocols == Protocols::NvmeInTls && step[0] & 8 == 0 {
                place_pdu(&mut words, &mut head);
            }
        }
        _ => {}
    }
    words[0] = u64::from_le_bytes(head);
    words
}

/// Adds to a recovery the PDU that its record has a part of, and the part of it in the record before.
fn place_pdu(words: &mut [u64; SLOT_WORDS], head: &mut [u8; 8]) {
    let (record, in_record) = (words[2], PDU_IN_RECORDS / CONTENT);
    let before = record % in_record as u64 * CONTENT as u64;
    head[1] |= 4;
    words[22] = record / in_record as u64;
    words[23] = PDU_IN_RECORDS as u64 | before << 32;
    if before > 0 {
        // Its slice comes before the record's.
        (words[6], words[7]) = (words[4], words[5]);
        words[4] = (record - 1) * MESSAGE as u64 + 5;
        words[5] = CONTENT as u64;
        head[3] = head[3].wrapping_add(1);
    }
}

fn header(seq: SeqNum) -> Vec<u8> {
    let flow = flow();
    let tcp = tcp::Header {
        src_port: flow.src.1,
        dst_port: flow.dst.1,
        seq,
        ack: SeqNum(0),
        flags: tcp::Flags::ACK,
        window: 100,
        options: tcp::Options::default(),
    };
    let mut header = vec![0; MAX_TCP_HEADERS_LEN];
    let len = packet::emit_tcp_headers(&mut header, MAC, PEER, &flow, &tcp, 0, 64);
    header.truncate(len);
    header
}

/// Lets the device work off what was posted.
fn work(nic: &mut Nic, host: &mut HostFunction, protocols: Protocols) {
    let now = Instant::now();
    let mut out = [0; 1514];
    loop {
        let _ = host.queues[0].publish();
        while let Some((len, _)) = nic.poll_transmit(now, &mut out) {
            let frame = &out[..len];
            assert_eq!(frame[6..12], MAC.0, "every frame is from its function");
            let parsed = packet::parse(frame).expect("only TCP was posted");
            assert!(parsed.verify_checksums(frame));
            let plain = [PLAIN; 24];
            let payload = parsed.payload(frame);
            let shown = payload.windows(plain.len()).any(|bytes| bytes == plain);
            assert!(!shown || protocols == Protocols::Nvme);
        }
        nic.flush(now);
        let mut told = false;
        while host.queues[0].recv.pop().is_some() {
            told = true;
        }
        if !told {
            return;
        }
    }
}
