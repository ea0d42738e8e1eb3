//! What a crafted peer sends, and what must come of it.

use l5p::crc32c::Crc32c;
use l5p::nvme::Parameters;
use proptest::prelude::*;
use rand::SeedableRng as _;
use rand::seq::SliceRandom as _;
use rand_pcg::Pcg64Mcg;
use wire::nvme::{
    C2HData, CapsuleCmd, CapsuleResp, H2CData, MAX_HEADER_LEN, Pdu, R2T, Role, SQE_LEN,
};

/// Tags below this are good.
pub const COMMANDS: u16 = 8;

/// Bytes around each slice of a buffer that nobody may write.
const GUARD: u64 = 64;

/// One transfer under one tag.
#[derive(Clone, Copy, Debug)]
pub struct Transfer {
    /// Bytes.
    pub len: u32,
    /// Most bytes in one PDU.
    pub part: u32,
    /// The receiver asks the NIC to place it.
    pub is_mapped: bool,
    /// Bytes of each slice of its buffer.
    pub slice: u32,
    /// One of its PDUs has a wrong data digest.
    pub has_bad_digest: bool,
}

/// Transfers whose PDUs come in any order, mixed with others. Tags are used again only in the next round.
#[derive(Clone, Debug)]
pub struct RoundPlan {
    pub transfers: Vec<Transfer>,
    /// PDUs without a buffer in between.
    pub others: u8,
    /// The data is full of headers.
    pub is_planted: bool,
    /// The parts of each transfer ascend.
    pub is_ascending: bool,
}

pub fn rounds() -> impl Strategy<Value = Vec<RoundPlan>> {
    prop::collection::vec(round(), 1..4)
}

fn round() -> impl Strategy<Value = RoundPlan> {
    let transfers = prop::collection::vec(transfer(), 1..5);
    (transfers, 0..6u8, any::<[bool; 2]>()).prop_map(
        |(transfers, others, [is_planted, is_ascending])| RoundPlan {
            transfers,
            others,
            is_planted,
            is_ascending,
        },
    )
}

fn transfer() -> impl Strategy<Value = Transfer> {
    let len = prop_oneof![1 => 1..600u32, 3 => 600..40_000u32, 1 => 40_000..120_000u32];
    let part = prop_oneof![1 => 100..2000u32, 2 => 2000..70_000u32, 1 => Just(u32::MAX)];
    let slice = prop_oneof![Just(4096u32), 9_000..70_000u32, Just(1 << 20)];
    (len, part, slice, any::<bool>(), 0..10u8).prop_map(|(len, part, slice, is_mapped, bad)| {
        Transfer {
            len,
            part: part.max(len / 40),
            is_mapped,
            slice: slice.max(len.div_ceil(14)),
            has_bad_digest: bad == 0,
        }
    })
}

/// A buffer of the receiver's: where its slices are in its memory.
#[derive(Clone, Debug)]
pub struct Buffer {
    pub tag: u16,
    pub is_mapped: bool,
    pub slices: Vec<(u64, u32)>,
}

impl Buffer {
    /// The places of bytes `at..at + len` of the buffer.
    pub fn places(&self, at: u32, len: u32) -> Vec<(u64, u32)> {
        let (mut skip, mut left) = (at, len);
        let mut places = Vec::new();
        for &(offset, len) in &self.slices {
            let skipped = skip.min(len);
            skip -= skipped;
            let taken = (len - skipped).min(left);
            left -= taken;
            if taken > 0 {
                places.push((offset + u64::from(skipped), taken));
            }
        }
        assert_eq!(left, 0, "a buffer is as long as its data");
        places
    }
}

/// What a sink is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SinkEvent {
    Header(Pdu),
    /// Whether the digest was right, and the data if it was taken inline.
    End(bool, Vec<u8>),
}

/// One PDU with its data.
#[derive(Clone, Debug)]
pub struct Message {
    pub pdu: Pdu,
    pub data: Vec<u8>,
    pub has_bad_digest: bool,
}

impl Message {
    /// The bytes on the wire.
    pub fn write(&self, parameters: &Parameters, to: &mut Vec<u8>) {
        let framing = parameters.framing();
        let layout = framing.layout(self.pdu.pdu_type(), self.pdu.data_len());
        let start = to.len();
        let mut header = [0; MAX_HEADER_LEN];
        let len = self.pdu.emit(&framing, &mut header);
        to.extend_from_slice(&header[..len]);
        if layout.header_digest {
            to.extend_from_slice(&Crc32c::of(&header[..len]).to_le_bytes());
        }
        to.resize(start + layout.data().start as usize, 0);
        to.extend_from_slice(&self.data);
        if layout.data_digest {
            let digest = Crc32c::of(&self.data) ^ u32::from(self.has_bad_digest);
            to.extend_from_slice(&digest.to_le_bytes());
        }
    }

    /// The tag that its data belongs to, and where.
    pub fn place(&self) -> Option<(u16, u32)> {
        match &self.pdu {
            Pdu::C2HData(data) => Some((data.cccid, data.data_offset)),
            Pdu::H2CData(data) => Some((data.ttag, data.data_offset)),
            _ => None,
        }
    }

    /// What the receiver is told of it.
    pub fn told(&self, parameters: &Parameters, to: &mut Vec<SinkEvent>) {
        to.push(SinkEvent::Header(self.pdu));
        if self.data.is_empty() {
            return;
        }
        let good = !(self.has_bad_digest && parameters.data_digest);
        let inline = match self.pdu {
            Pdu::CapsuleCmd(_) => self.data.clone(),
            _ => Vec::new(),
        };
        to.push(SinkEvent::End(good, inline));
    }
}

/// A round, made out.
#[derive(Clone, Debug)]
pub struct Round {
    pub buffers: Vec<Buffer>,
    pub messages: Vec<Message>,
}

impl Round {
    /// Makes out a plan. `memory` is the receiver's, and becomes what it must be afterwards.
    pub fn new(plan: &RoundPlan, parameters: &Parameters, seed: u64, memory: &mut [u8]) -> Round {
        let mut rng = Pcg64Mcg::seed_from_u64(seed);
        let mut tags: Vec<u16> = (0..COMMANDS).collect();
        tags.shuffle(&mut rng);
        let mut free = GUARD;
        let mut round = Round {
            buffers: Vec::new(),
            messages: Vec::new(),
        };
        for (transfer, tag) in plan.transfers.iter().zip(tags) {
            let mut data = vec![0; transfer.len as usize];
            rng.fill_bytes(&mut data);
            if plan.is_planted {
                plant(parameters, tag, &mut data, &mut rng);
            }
            let mut slices = Vec::new();
            for part in data.chunks(transfer.slice as usize) {
                memory[free as usize..][..part.len()].copy_from_slice(part);
                slices.push((free, part.len() as u32));
                free += part.len() as u64 + GUARD;
            }
            round.buffers.push(Buffer {
                tag,
                is_mapped: transfer.is_mapped,
                slices,
            });
            round.cut(transfer, parameters.sender, tag, &data, &mut rng);
        }
        for _ in 0..plan.others {
            round.messages.push(other(parameters.sender, &mut rng));
        }
        round.messages.shuffle(&mut rng);
        if plan.is_ascending {
            round.sort_transfers();
        }
        round
    }

    /// Brings the parts of each transfer into order, and leaves the turns of the transfers as they are.
    fn sort_transfers(&mut self) {
        for buffer in &self.buffers {
            let is_of =
                |message: &&Message| message.place().is_some_and(|(tag, _)| tag == buffer.tag);
            let mut parts: Vec<Message> = self.messages.iter().filter(is_of).cloned().collect();
            parts.sort_by_key(Message::place);
            let mut parts = parts.into_iter();
            for message in &mut self.messages {
                if is_of(&&*message) {
                    *message = parts.next().expect("as many as before");
                }
            }
        }
    }

    /// Cuts data into PDUs.
    fn cut(
        &mut self,
        transfer: &Transfer,
        sender: Role,
        tag: u16,
        data: &[u8],
        rng: &mut Pcg64Mcg,
    ) {
        let first = self.messages.len();
        let mut at = 0;
        while at < data.len() {
            let most = (data.len() - at).min(transfer.part as usize);
            let len = rng.random_range(most.div_ceil(2)..=most);
            let (data_offset, data_len, last) = (at as u32, len as u32, rng.random());
            let pdu = match sender {
                Role::Controller => Pdu::C2HData(C2HData {
                    cccid: tag,
                    data_offset,
                    data_len,
                    last,
                    success: last && rng.random(),
                }),
                Role::Host => Pdu::H2CData(H2CData {
                    cccid: rng.random(),
                    ttag: tag,
                    data_offset,
                    data_len,
                    last,
                }),
            };
            self.messages.push(Message {
                pdu,
                data: data[at..at + len].to_vec(),
                has_bad_digest: false,
            });
            at += len;
        }
        if transfer.has_bad_digest {
            let which = rng.random_range(first..self.messages.len());
            self.messages[which].has_bad_digest = true;
        }
    }
}

/// A PDU that belongs to no buffer.
fn other(sender: Role, rng: &mut Pcg64Mcg) -> Message {
    let mut bytes = [0; SQE_LEN];
    rng.fill_bytes(&mut bytes);
    let mut data = Vec::new();
    let pdu = match (sender, rng.random::<bool>()) {
        (Role::Host, has_data) => {
            if has_data {
                data.resize(rng.random_range(1..9000), 0);
                rng.fill_bytes(&mut data);
            }
            Pdu::CapsuleCmd(CapsuleCmd {
                sqe: bytes,
                data_len: data.len() as u32,
            })
        }
        (Role::Controller, true) => Pdu::CapsuleResp(CapsuleResp {
            cqe: bytes[..16].try_into().expect("16 bytes"),
        }),
        (Role::Controller, false) => Pdu::R2T(R2T {
            cccid: rng.random(),
            ttag: rng.random(),
            offset: rng.random_range(0..1 << 20),
            len: rng.random_range(1..1 << 20),
        }),
    };
    Message {
        pdu,
        data,
        has_bad_digest: false,
    }
}

/// Writes chains of headers into data: each at the place where the one before says that the next header is, for this tag or another
/// one, with right digests over them.
fn plant(parameters: &Parameters, tag: u16, data: &mut [u8], rng: &mut Pcg64Mcg) {
    let mut at = rng.random_range(0..200usize);
    while at < data.len() {
        let len = rng.random_range(1..3000u32);
        let cccid = if rng.random() { tag } else { tag + 1 };
        let offset = rng.random_range(0..100_000);
        let pdu = match parameters.sender {
            Role::Controller => Pdu::C2HData(C2HData {
                cccid,
                data_offset: offset,
                data_len: len,
                last: true,
                success: true,
            }),
            Role::Host => Pdu::H2CData(H2CData {
                cccid,
                ttag: tag,
                data_offset: offset,
                data_len: len,
                last: true,
            }),
        };
        let message = Message {
            pdu,
            data: vec![7; len as usize],
            has_bad_digest: false,
        };
        let mut bytes = Vec::new();
        message.write(parameters, &mut bytes);
        let len = bytes.len().min(data.len() - at);
        // The header alone, or with data and a right digest.
        let written = if rng.random() { len } else { len.min(28) };
        data[at..at + written].copy_from_slice(&bytes[..written]);
        at += bytes.len();
        if rng.random_range(0..4) == 0 {
            at += rng.random_range(0..5000);
        }
    }
}
