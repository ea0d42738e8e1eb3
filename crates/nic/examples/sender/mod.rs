//! A host that sends the same messages over and over, for the example and the test of allocations.

use l5p::Layers;
use l5p::nvme::Role;
use nic::ring::{FunctionConfig, InnerRecover, SendFlags, Slice, Verify};
use nic::{NicConfig, WireCapabilities};
use testkit::bare::{CONTEXT, Message, Rig, function_config, nic_config};
use testkit::fixtures::{aes_128_gcm, nvme};
use testkit::pdus::{PduStream, data};
use testkit::records::Records;
use wire::SeqNum;

/// Bytes of a PDU, and of what a record contains.
const CONTENT: u32 = 16_384;
const MSS: u16 = 1448;

/// What the NIC does to the payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offload {
    None,
    /// It encrypts records.
    Tls,
    /// It makes the digests of PDUs.
    Nvme,
    /// Both.
    NvmeInTls,
}

/// Whether, and how, the sender sends the second half of each message again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repeat {
    Never,
    /// From memory that does not change.
    Unverified,
    /// From memory that may change.
    Verified,
}

/// What a run has sent.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sent {
    pub frames: u64,
    pub bytes: u64,
}

pub struct Sender {
    rig: Rig,
    /// A record, or a PDU.
    message: Slice,
    offload: Offload,
    repeat: Repeat,
    at: SeqNum,
    index: u64,
    out: Vec<u8>,
}

impl Sender {
    /// A sender whose wire segments or does not, and whose memory is a virtual machine's or not.
    pub fn new(wire: bool, is_guest: bool, offload: Offload, repeat: Repeat) -> Sender {
        let nic = NicConfig {
            wire: WireCapabilities {
                tso: wire,
                checksum: wire,
            },
            ..nic_config()
        };
        let function = FunctionConfig {
            contexts: 1,
            ..function_config()
        };
        let mut rig = match is_guest {
            false => Rig::new(nic, function),
            true => Rig::of_guest(nic, function),
        };
        let (crypto, parameters) = (aes_128_gcm(), nvme(Role::Controller, false, true));
        let pdu = PduStream::new(&parameters, &[data(0, 0, CONTENT - 24 - 4)]);
        let (bytes, layers) = match offload {
            Offload::Nvme => (pdu.framed, Layers::of(&parameters)),
            Offload::NvmeInTls => (
                Records::of(&crypto, [&pdu.framed]).framed,
                Layers::of(&crypto).carrying(&parameters),
            ),
            Offload::None | Offload::Tls => (
                Records::of(&crypto, [[3; CONTENT as usize]]).framed,
                Layers::of(&crypto),
            ),
        };
        rig.host.memory.write(0, &bytes);
        rig.create(SeqNum(0), &layers);
        Sender {
            message: rig.slice(0, bytes.len() as u32),
            rig,
            offload,
            repeat,
            at: SeqNum(0),
            index: 0,
            out: vec![0; 66_000],
        }
    }

    /// Sends so many messages.
    pub fn send(&mut self, messages: u32) -> Sent {
        let mut sent = Sent::default();
        for _ in 0..messages {
            let (start, message) = (self.at, self.message);
            self.post(start, message);
            if self.offload != Offload::None && self.repeat != Repeat::Never {
                self.repeat(start);
            }
            self.at += message.len;
            self.index += 1;
            self.rig.host.publish();
            let (nic, now) = (&mut self.rig.nic, self.rig.now);
            while let Some((len, _)) = nic.poll_transmit(now, &mut self.out) {
                sent.frames += 1;
                sent.bytes += len as u64;
            }
            nic.flush(now);
            nic.take_wakeups(|_, _| {});
        }
        assert_eq!(self.rig.host.pop(0), None, "refused");
        sent
    }

    fn repeat(&mut self, start: SeqNum) {
        let half = self.message.len / 2;
        let tail = Slice {
            offset: self.message.offset + u64::from(half),
            len: self.message.len - half,
            ..self.message
        };
        let (prefix, verify) = match self.repeat {
            Repeat::Verified => (self.message, Verify::WholeMessage),
            _ => (
                Slice {
                    len: half,
                    ..self.message
                },
                Verify::None,
            ),
        };
        let message = Message {
            start,
            len: self.message.len,
            index: self.index,
        };
        let inner = (self.offload == Offload::NvmeInTls).then_some(InnerRecover {
            index: self.index,
            len: CONTENT,
            offset: 0,
        });
        self.rig
            .recover_layers(&message, start + half, &[prefix], verify, inner);
        self.post(start + half, tail);
    }

    fn post(&mut self, seq: SeqNum, payload: Slice) {
        let flags = match self.repeat {
            Repeat::Verified => SendFlags::MUTABLE_SOURCE,
            _ => SendFlags::NONE,
        };
        let context = (self.offload != Offload::None).then_some(CONTEXT);
        self.rig.send(seq, MSS, context, flags, &[payload]);
    }
}
