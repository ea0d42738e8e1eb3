//! A driver that shadows the NIC's context, as Autonomous NIC offloads §4.2 and "NVMeTCP offload" have it.

use std::ops::Range;

use l5p::Layers;
use l5p::tls::ICV_LEN;
use nic::ring::{ContextId, InnerRecover, SendFlags, Slice, Verify};
use testkit::bare::{CONTEXT, Message, Rig};
use testkit::pdus::PduStream;
use wire::{SeqNum, packet};

use super::pdus::{send_bare, send_in_tls};
use super::stream::{Stream, Suite};

/// One action of a sender, in fractions of what is possible.
#[derive(Debug, Clone, Copy)]
pub enum Action {
    /// Sends so many new bytes.
    New { bytes: u32, mss: u16 },
    /// Sends a range of what was sent again.
    Again {
        at: f64,
        share: f64,
        mss: u16,
        /// Beside where the context is, as far as that is possible.
        seek: bool,
    },
}

pub struct Driver {
    pub rig: Rig,
    pub stream: Stream,
    encrypted: bool,
    /// What is sent, in records or without.
    pdus: Option<PduStream>,
    /// Of each record, the content in the PDUs.
    contents: Vec<Range<usize>>,
    /// Where the device's context is.
    shadow: SeqNum,
    /// End of what was ever sent.
    sent: SeqNum,
    /// The memory may change.
    pub mutable: bool,
    /// Bytes of a slice.
    pub cut: u32,
    /// Segments that went without the context.
    pub bypassed: u32,
}

impl Driver {
    fn new(rig: Rig, stream: Stream, pdus: Option<PduStream>) -> Driver {
        Driver {
            shadow: stream.start,
            sent: stream.start,
            rig,
            stream,
            encrypted: true,
            pdus,
            contents: Vec::new(),
            mutable: false,
            cut: 5000,
            bypassed: 0,
        }
    }

    /// Sends records of these sizes.
    pub fn of_records(mut rig: Rig, suite: Suite, start: SeqNum, sizes: &[usize]) -> Driver {
        let stream = Stream::new(&rig, suite, start, sizes);
        rig.create(start, &Layers::of(&stream.crypto));
        Driver::new(rig, stream, None)
    }

    /// Sends PDUs.
    pub fn of_pdus(mut rig: Rig, pdus: PduStream, start: SeqNum) -> Driver {
        let stream = send_bare(&pdus, &mut rig, start);
        Driver {
            encrypted: false,
            ..Driver::new(rig, stream, Some(pdus))
        }
    }

    /// Sends PDUs in records of these sizes.
    pub fn of_pdus_in_records(
        mut rig: Rig,
        pdus: PduStream,
        suite: Suite,
        start: SeqNum,
        sizes: &[usize],
    ) -> Driver {
        let (stream, contents) = send_in_tls(&pdus, &mut rig, suite, start, sizes);
        Driver {
            contents,
            ..Driver::new(rig, stream, Some(pdus))
        }
    }

    /// Does these, and checks that the wire carries what software would have sent.
    pub fn run(&mut self, actions: &[Action]) {
        let start = self.stream.start;
        for action in actions {
            let left = self.sent.distance_to(self.stream.end());
            let (from, to, mss, seek) = match *action {
                Action::New { bytes, mss } => (self.sent, self.sent + bytes.min(left), mss, false),
                Action::Again {
                    at,
                    share,
                    mss,
                    seek,
                } => {
                    let sent = start.distance_to(self.sent);
                    let from = (f64::from(sent) * at) as u32;
                    let len = (f64::from(sent - from) * share) as u32;
                    (start + from, start + from + len.min(40_000), mss, seek)
                }
            };
            self.send(from, to, mss, seek);
            let mut at = from;
            for (frame, _) in self.rig.frames() {
                let parsed = packet::parse(&frame).unwrap();
                let payload = parsed.payload(&frame);
                assert_eq!(parsed.tcp.seq, at, "frames in order, none missing");
                self.stream.check(&parsed, payload);
                at += payload.len() as u32;
            }
            assert_eq!(self.rig.host.errors(), []);
            assert_eq!(at, to, "all was sent");
        }
        assert_eq!(self.rig.nic.counters().tx_errors, 0);
    }

    fn send(&mut self, from: SeqNum, to: SeqNum, mss: u16, seek: bool) {
        let mut at = from;
        while at.before(to) {
            let message = *self.stream.record_at(at).unwrap();
            let before_icv = (message.end() - ICV_LEN as u32).min(to);
            let seekable = seek && self.stream.crypto.is_seekable() && !self.mutable;
            if seekable && at.before(before_icv) && before_icv.at_or_before(self.sent) {
                self.rig.recover(&message, at, &[], Verify::Seek);
                self.post(at, before_icv, mss, Some(CONTEXT), SendFlags::NONE);
                at = before_icv;
                continue;
            }
            // What is verified is one record, or the part of one that was sent.
            let known = self.encrypted && self.mutable && at.before(self.sent);
            let limit = match known {
                true => message.end().min(self.sent).min(to),
                false => to,
            };
            let mut context = Some(CONTEXT);
            if at != self.shadow || known {
                if self.needs_context(at, limit) {
                    self.recover(message, at);
                } else {
                    context = None;
                    self.bypassed += 1;
                }
            }
            let flags = match self.mutable {
                true => SendFlags::MUTABLE_SOURCE,
                false => SendFlags::NONE,
            };
            self.post(at, limit, mss, context, flags);
            if context.is_some() {
                self.shadow = limit;
            }
            at = limit;
            self.sent = self.sent.max(limit);
        }
    }

    /// Something of the range is made by the NIC.
    fn needs_context(&self, from: SeqNum, to: SeqNum) -> bool {
        let range = self.stream.offset(from) as usize..self.stream.offset(to) as usize;
        let pdus = self.pdus.as_ref();
        self.encrypted || pdus.is_some_and(|pdus| pdus.has_digest(range))
    }

    fn post(
        &mut self,
        from: SeqNum,
        to: SeqNum,
        mss: u16,
        context: Option<ContextId>,
        flags: SendFlags,
    ) {
        let slices = self.stream.slices(&self.rig, from, to, self.cut);
        self.rig.send(from, mss, context, flags, &slices);
    }

    fn recover(&mut self, message: Message, resume: SeqNum) {
        let end = message.end();
        let first = resume == message.start && !resume.before(self.sent);
        let (verify, to) = if !self.mutable || !self.encrypted || first {
            (Verify::None, resume)
        } else if end.at_or_before(self.sent) {
            (Verify::WholeMessage, end)
        } else {
            (Verify::Frontier, self.sent)
        };
        let (inner, mut prefix) = self.inner(&message);
        prefix.extend(self.stream.slices(&self.rig, message.start, to, self.cut));
        self.rig
            .recover_layers(&message, resume, &prefix, verify, inner);
    }

    /// The PDU with the first byte of a record's content, and where its bytes before that are.
    fn inner(&self, record: &Message) -> (Option<InnerRecover>, Vec<Slice>) {
        let (true, Some(pdus)) = (self.encrypted, &self.pdus) else {
            return (None, Vec::new());
        };
        let contents = &self.contents;
        let n = (record.index - self.stream.records[0].index) as usize;
        let first = contents[n].start;
        let index = pdus.number_at(first);
        let (start, len) = match pdus.pdus.get(index) {
            Some(pdu) => (pdu.all.start, pdu.all.len()),
            None => (first, 24),
        };
        let mut prefix = Vec::new();
        for (content, record) in contents.iter().zip(&self.stream.records) {
            let (from, to) = (content.start.max(start), content.end.min(first));
            if from < to {
                let at = self.stream.offset(record.start) + self.header_len();
                let at = u64::from(at) + (from - content.start) as u64;
                prefix.push(self.rig.slice(at, (to - from) as u32));
            }
        }
        let inner = InnerRecover {
            index: index as u64,
            len: len as u32,
            offset: (first - start) as u32,
        };
        (Some(inner), prefix)
    }

    /// Bytes of a record before its content.
    fn header_len(&self) -> u32 {
        let writer = l5p::tls::Writer::new(self.stream.crypto.clone());
        let layout = writer.record_layout(l5p::tls::ContentType::APPLICATION_DATA, 1);
        layout.header().len() as u32
    }
}
