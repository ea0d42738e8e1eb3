//! A host with one connection, which it runs by itself or has the device run.

use std::time::{Duration, Instant};

use nic::ring::toe::{
    MAX_HELD, MAX_TOE_SLICES, TCB_IMAGE_BYTES, TcbImage, ToeCommand, ToeEvent, ToeId,
};
use nic::ring::{Packet, RecvDescriptor, SendDescriptor, SendFlags, Slice};
use tcp::{CloseReason, Connection, Event, TimeWait, TimeWaitEntry, Transmit, Verdict};
use testkit::bare::{BareHost, Memory};
use testkit::fixtures::{HOST, PEER, byte};
use testkit::frames::headers;
use wire::tcp::Header;
use wire::{FlowKey, SeqNum, packet};

use super::world::{TO_HOST, TO_PEER};

/// Who runs the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    Host,
    /// `ToeBegin` is posted.
    Asked,
    /// `ToeOffer` is posted.
    Offered,
    Nic,
    /// `ToeRestore` is posted.
    AskedBack,
    Gone(CloseReason),
}

pub struct Host {
    pub bare: BareHost,
    stream: Memory,
    flow: FlowKey,
    pub connection: Connection,
    pub owner: Owner,
    pub toe: ToeId,
    /// First position of our stream, and of the peer's.
    first: SeqNum,
    irs: SeqNum,
    total: usize,
    written: usize,
    closed: bool,
    /// What the device has been given, and where that was closed.
    posted: SeqNum,
    posted_close: bool,
    reported_una: SeqNum,
    /// Ends of the slices that it has.
    chunks: Vec<SeqNum>,
    received: Vec<bool>,
    /// All before it is in order.
    rcv_nxt: SeqNum,
    read: SeqNum,
    reported_read: SeqNum,
    pub peer_fin: bool,
    time_wait: Option<TimeWaitEntry>,
    delivered: Option<(SeqNum, u32, u32)>,
    /// Where the control block that was offered is.
    tcb: Slice,
    pub handoffs: u32,
    pub restores: u32,
    pub refused: Vec<nic::ring::toe::RefuseReason>,
}

impl Host {
    pub fn new(
        bare: BareHost,
        flow: FlowKey,
        connection: Connection,
        irs: SeqNum,
        (total, expected): (usize, usize),
    ) -> Host {
        let stream = Memory::register(&bare, total);
        let bytes: Vec<u8> = (0..total).map(|at| byte(TO_HOST, at)).collect();
        stream.write(0, &bytes);
        let (first, tcb) = (connection.write_seq(), bare.memory.slice(0, 0));
        Host {
            bare,
            stream,
            flow,
            connection,
            owner: Owner::Host,
            toe: ToeId {
                index: 3,
                generation: 0,
            },
            first,
            irs,
            total,
            written: 0,
            closed: false,
            posted: first,
            posted_close: false,
            reported_una: first,
            chunks: Vec::new(),
            received: vec![false; expected],
            rcv_nxt: irs + 1,
            read: irs + 1,
            reported_read: irs + 1,
            peer_fin: false,
            time_wait: None,
            delivered: None,
            tcb,
            handoffs: 0,
            restores: 0,
            refused: Vec::new(),
        }
    }

    pub fn is_done(&self) -> bool {
        matches!(self.owner, Owner::Gone(_))
    }

    pub fn has_everything(&self) -> bool {
        self.received.iter().all(|received| *received)
    }

    pub fn command(&mut self, command: ToeCommand<'_>) {
        self.bare.command(0, command);
    }

    /// The application writes so many bytes, and closes behind the last one.
    pub fn write(&mut self, now: Instant, bytes: usize) {
        let bytes = bytes.min(self.total - self.written);
        self.written += bytes;
        if self.runs_here() && bytes > 0 {
            assert_eq!(self.connection.queue(now, bytes as u32), bytes as u32);
        }
        if self.written == self.total && !self.closed {
            self.closed = true;
            if self.runs_here() {
                self.connection.close(now);
            }
        }
    }

    fn runs_here(&self) -> bool {
        matches!(self.owner, Owner::Host | Owner::Asked)
    }

    pub fn begin(&mut self) -> bool {
        let state = self.connection.state();
        if self.owner != Owner::Host || !state.is_synchronized() || self.closed {
            return false;
        }
        self.toe.generation += 1;
        self.owner = Owner::Asked;
        self.command(ToeCommand::Begin {
            toe: self.toe,
            flow: self.flow,
        });
        true
    }

    pub fn restore(&mut self) -> bool {
        if self.owner != Owner::Nic {
            return false;
        }
        self.owner = Owner::AskedBack;
        self.command(ToeCommand::Restore { toe: self.toe });
        true
    }

    /// The application reads nothing; the connection's owner may announce a window all the same.
    pub fn nudge(&mut self, now: Instant) {
        if self.runs_here() {
            self.connection.consumed(now, 0);
        } else if self.owner == Owner::Nic && self.bare.queues[0].commands.free(4) >= 4 {
            let toe = self.toe;
            self.command(ToeCommand::Consumed { toe, bytes: 0 });
        }
    }

    fn offer(&mut self, now: Instant) {
        let tcb = self
            .connection
            .tcb(now)
            .filter(|tcb| !self.closed && !tcb.state.is_closing() && tcb.held.len() <= MAX_HELD);
        let Some(mut tcb) = tcb else {
            self.owner = Owner::Host;
            self.command(ToeCommand::Cancel { toe: self.toe });
            return;
        };
        tcb.write_seq = tcb.snd_nxt;
        self.posted = tcb.snd_una;
        self.reported_una = tcb.snd_una;
        self.posted_close = false;
        self.reported_read = self.read;
        self.chunks.clear();
        let image = TcbImage {
            tcb,
            config: self.connection.config(),
            cork: self.connection.is_corked(),
        };
        let mut bytes = [0; TCB_IMAGE_BYTES];
        image.encode(&mut bytes).expect("few ranges");
        assert_eq!(TcbImage::decode(&bytes), Ok(image.clone()));
        self.owner = Owner::Offered;
        self.tcb = self.bare.offer(0, self.toe, self.flow, &image);
    }

    /// Sends what there is to be sent, or has it sent.
    pub fn output(&mut self, now: Instant) {
        if matches!(self.owner, Owner::Host | Owner::Asked) {
            while self.has_slots()
                && let Some(transmit) = self.connection.poll_transmit(now)
            {
                self.post(&transmit);
            }
            self.poll_events(now);
        } else if matches!(self.owner, Owner::Offered | Owner::Nic) {
            self.post_stream();
        }
        let _ = self.bare.queues[0].publish();
    }

    fn has_slots(&mut self) -> bool {
        self.bare.queues[0].send.free(4) >= 4
    }

    fn poll_events(&mut self, now: Instant) {
        while let Some(event) = self.connection.poll_event() {
            match event {
                Event::Closed(reason) => self.owner = Owner::Gone(reason),
                Event::TimeWait => {
                    self.owner = Owner::Gone(CloseReason::Graceful);
                    self.time_wait = self.connection.time_wait(now);
                }
                Event::PeerFin => self.peer_fin = true,
                _ => {}
            }
        }
    }

    fn slice(&self, from: SeqNum, len: u32) -> Slice {
        let offset = self.first.distance_to(from);
        self.stream.slice(offset.into(), len)
    }

    fn post(&mut self, transmit: &Transmit) {
        let header = headers(HOST, PEER, &self.flow, &transmit.header);
        let payload = [self.slice(transmit.header.seq, transmit.payload)];
        let descriptor = SendDescriptor::Send {
            header: &header,
            mss: transmit.mss,
            context: None,
            flags: SendFlags::CHECKSUM,
            payload: &payload[..usize::from(transmit.payload > 0)],
        };
        self.bare.post(&descriptor);
    }

    fn post_stream(&mut self) {
        const CHUNK: u32 = 5000;
        let end = self.first + self.written as u32;
        let una = self.reported_una;
        self.chunks.retain(|chunk| chunk.after(una));
        while self.posted.before(end) && self.chunks.len() + 2 <= MAX_TOE_SLICES {
            if self.bare.queues[0].commands.free(2) < 2 {
                return;
            }
            let len = self.posted.distance_to(end).min(CHUNK);
            let (first, second) = (len.div_ceil(2), len / 2);
            let slices = [
                self.slice(self.posted, first),
                self.slice(self.posted + first, second),
            ];
            let command = ToeCommand::Send {
                toe: self.toe,
                seq: self.posted,
                context: None,
                flags: SendFlags::NONE,
                payload: &slices[..1 + usize::from(second > 0)],
            };
            self.command(command);
            self.chunks.extend([self.posted + first, self.posted + len]);
            self.posted += len;
        }
        if self.posted == end && self.closed && !self.posted_close {
            self.posted_close = true;
            self.command(ToeCommand::Close { toe: self.toe });
        }
        if self.reported_read != self.read {
            let bytes = self.reported_read.distance_to(self.read);
            self.command(ToeCommand::Consumed {
                toe: self.toe,
                bytes,
            });
            self.reported_read = self.read;
        }
    }

    /// Takes what the device has put on the receive ring.
    pub fn input(&mut self, now: Instant) {
        while let Some(descriptor) = self.bare.pop(0) {
            match descriptor {
                RecvDescriptor::Packet(packet) => {
                    let delivered = self.bare.read(descriptor).expect("a packet");
                    self.bare.refill();
                    self.packet(now, &packet, &delivered.bytes);
                }
                RecvDescriptor::Toe(event) => self.event(now, event),
                other => panic!("{other:?}"),
            }
        }
        self.read = self.rcv_nxt;
        if self.runs_here() {
            let unread = self.connection.unread();
            if unread > 0 {
                self.connection.consumed(now, unread);
            }
        }
        let _ = self.bare.queues[0].publish();
    }

    fn packet(&mut self, now: Instant, packet: &Packet, bytes: &[u8]) {
        let parsed = packet::parse(bytes).expect("a segment");
        let payload = &bytes[usize::from(packet.header_len)..];
        if let Some((seq, skip, len)) = self.delivered.take() {
            assert!(
                matches!(self.owner, Owner::Nic | Owner::AskedBack),
                "{:?}",
                self.owner
            );
            assert_eq!(parsed.tcp.seq + skip, seq);
            self.store(seq, &payload[skip as usize..(skip + len) as usize]);
            return;
        }
        match self.owner {
            Owner::Host | Owner::Asked => {}
            Owner::Gone(_) => return self.rest(now, &parsed.tcp),
            owner => panic!("a packet of the host's while it is {owner:?}"),
        }
        let received =
            self.connection
                .handle_segment(now, &parsed.tcp, packet.payload_len, packet.segments);
        if let Some(data) = received.data {
            self.store(
                data.seq,
                &payload[data.skip as usize..(data.skip + data.len) as usize],
            );
        }
        self.rcv_nxt = self.connection.rcv_nxt() - u32::from(self.fin_taken(&received));
        self.poll_events(now);
    }

    fn fin_taken(&mut self, received: &tcp::Received) -> bool {
        self.peer_fin |= received.fin;
        self.peer_fin
    }

    /// TIME-WAIT: what comes again is acknowledged again.
    fn rest(&mut self, now: Instant, segment: &Header) {
        let mut table = TimeWait::new(now, 1, Duration::from_secs(60), [0; 16]);
        if let Some(entry) = self.time_wait {
            table.insert(now, self.flow, entry);
        }
        if let Verdict::Reply(header) = table.handle_segment(now, &self.flow.reversed(), segment, 0)
        {
            self.post(&Transmit {
                header,
                payload: 0,
                mss: 1000,
                retransmit: false,
            });
        }
    }

    fn store(&mut self, seq: SeqNum, bytes: &[u8]) {
        let at = (self.irs + 1).distance_to(seq) as usize;
        for (n, got) in bytes.iter().enumerate() {
            assert_eq!(*got, byte(TO_PEER, at + n), "byte {} of the peer's", at + n);
            self.received[at + n] = true;
        }
    }

    fn event(&mut self, now: Instant, event: ToeEvent) {
        assert!(self.delivered.is_none(), "nothing comes between");
        if let Some(toe) = event.toe() {
            assert_eq!(toe, self.toe);
        }
        match event {
            ToeEvent::Ready { .. } => {
                assert_eq!(self.owner, Owner::Asked);
                self.offer(now);
            }
            ToeEvent::Accepted { .. } => {
                assert_eq!(self.owner, Owner::Offered);
                self.owner = Owner::Nic;
                self.handoffs += 1;
            }
            ToeEvent::Refused { reason, .. } => {
                self.refused.push(reason);
                self.owner = Owner::Host;
                self.catch_up(now);
            }
            ToeEvent::Delivered {
                seq,
                skip,
                len,
                rcv_nxt,
                snd_una,
                ..
            } => {
                assert!(rcv_nxt.at_or_after(self.rcv_nxt));
                assert!(snd_una.at_or_after(self.reported_una));
                (self.rcv_nxt, self.reported_una) = (rcv_nxt, snd_una);
                self.delivered = Some((seq, skip, len));
            }
            ToeEvent::Acked { snd_una, .. } => {
                assert!(snd_una.after(self.reported_una));
                self.reported_una = snd_una;
            }
            ToeEvent::PeerFin { rcv_nxt, .. } => {
                assert_eq!(rcv_nxt, self.rcv_nxt + 1);
                self.peer_fin = true;
            }
            ToeEvent::Closed {
                reason, time_wait, ..
            } => {
                self.owner = Owner::Gone(reason);
                self.time_wait = time_wait;
            }
            ToeEvent::Restored { .. } => self.come_back(now),
            ToeEvent::Room { .. } => {}
            other => panic!("{other:?}"),
        }
    }

    fn come_back(&mut self, now: Instant) {
        let bytes = self.bare.memory.get(self.tcb);
        let bytes = bytes.try_into().expect("a control block");
        let image = TcbImage::decode(&bytes).expect("a sound control block");
        assert!(image.tcb.write_seq.at_or_before(self.posted));
        self.connection = Connection::hand_over(now, &image.config, &image.tcb);
        self.connection.assert_invariants();
        while self.connection.poll_event().is_some() {}
        assert_eq!(
            self.rcv_nxt + u32::from(image.tcb.fin_taken),
            image.tcb.rcv_nxt
        );
        self.owner = Owner::Host;
        self.restores += 1;
        self.catch_up(now);
    }

    /// Does for the connection here what was done for it elsewhere, or should have been.
    fn catch_up(&mut self, now: Instant) {
        let end = self.first + self.written as u32;
        let missing = self.connection.write_seq().distance_to(end);
        if !self.connection.is_fin_queued() {
            assert_eq!(self.connection.queue(now, missing), missing);
            if self.closed {
                self.connection.close(now);
            }
        }
    }

    pub fn timeout(&self) -> Option<Instant> {
        if self.runs_here() {
            self.connection.poll_timeout()
        } else {
            None
        }
    }

    pub fn handle_timeout(&mut self, now: Instant) {
        if self.runs_here() {
            self.connection.handle_timeout(now);
        }
    }
}
