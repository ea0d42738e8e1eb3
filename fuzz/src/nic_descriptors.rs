//! Whatever a host writes into its send ring, the device answers by a frame, an effect or an error completion, gives
//! every slot back, and lets no plaintext of an offloaded flow out.

use l5p::Layers;
use l5p::nvme::Role;
use nic::Features;
use nic::ring::layout::clear_reserved;
use nic::ring::{FunctionConfig, SLOT_WORDS};
use testkit::bare::{MEMORY, Rig, function_config, nic_config};
use testkit::fixtures::{HOST, PEER, aes_128_gcm, flow, nvme};
use testkit::frames::{ack, headers};
use testkit::pdus::{PduStream, data, pdu};
use testkit::records::Records;
use wire::SeqNum;

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
    let config = FunctionConfig {
        send_entries: 64,
        receive_entries: 64,
        contexts: 4,
        features: Features::ALL,
        ..function_config()
    };
    let mut rig = Rig::new(nic_config(), config);
    offload(&mut rig, protocols);
    let mut at = SeqNum(0);
    for step in data.chunks_exact(STEP) {
        if rig.host.queues[0].send.free(1) == 0 {
            work(&mut rig, protocols);
        }
        let words = slot(step, &mut at, protocols);
        let posted = rig.host.queues[0].send.post_raw(&words);
        posted.expect("room for a slot");
        if step[0] & 2 != 0 {
            work(&mut rig, protocols);
        }
    }
    work(&mut rig, protocols);
    let send = &mut rig.host.queues[0].send;
    assert_eq!(send.completed(), send.posted(), "every slot comes back");
}

/// Fills memory with framed messages, and makes a context for them.
fn offload(rig: &mut Rig, protocols: Protocols) {
    let crypto = aes_128_gcm();
    let parameters = nvme(Role::Controller, false, true);
    let pdu_of = |len: usize| {
        let mut stream = PduStream::new(&parameters, &[]);
        let pdu = pdu(Role::Controller, data(7, 0, len as u32 - 28));
        stream.push_pdu(&pdu, |_| PLAIN);
        stream.framed
    };
    let records = |content: &[u8]| Records::of(&crypto, content.chunks_exact(CONTENT)).framed;
    let (messages, layers) = match protocols {
        Protocols::Tls => (records(&[PLAIN; CONTENT]), Layers::of(&crypto)),
        Protocols::Nvme => (pdu_of(MESSAGE), Layers::of(&parameters)),
        Protocols::NvmeInTls => (
            records(&pdu_of(PDU_IN_RECORDS)),
            Layers::of(&crypto).carrying(&parameters),
        ),
    };
    for at in (0..MEMORY - messages.len()).step_by(messages.len()) {
        rig.host.memory.write(at as u64, &messages);
    }
    rig.flow = flow(5000);
    rig.create(SeqNum(0), &layers);
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
            let header = headers(HOST, PEER, &flow(5000), &ack(&flow(5000), *at));
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
    if step[0] & 16 == 0 {
        clear_reserved(&mut words);
    }
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

/// Lets the device work off what was posted.
fn work(rig: &mut Rig, protocols: Protocols) {
    loop {
        for (frame, _) in rig.frames() {
            assert_eq!(frame[6..12], HOST.0, "every frame is from its function");
            let parsed = wire::packet::parse(&frame).expect("only TCP was posted");
            assert!(parsed.verify_checksums(&frame));
            let plain = [PLAIN; 24];
            let payload = parsed.payload(&frame);
            let shown = payload.windows(plain.len()).any(|bytes| bytes == plain);
            assert!(!shown || protocols == Protocols::Nvme);
        }
        if rig.host.take().is_empty() {
            return;
        }
    }
}
