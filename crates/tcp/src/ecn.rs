//! Explicit congestion notification (RFC 3168).

use wire::tcp::{Flags, Header};
use wire::{Ecn, SeqNum};

use crate::recovery::Phase;
use crate::{Connection, Counted, EcnMode, TcbEcn};

/// What a connection keeps of it.
#[derive(Clone, Debug)]
pub(crate) struct EcnState {
    stage: Stage,
    /// Marked packets came, and the peer has not said that it has reduced its window: ECE in all that is sent (§6.1.3).
    echo: bool,
    /// Our window was reduced, and the peer is to be told: CWR on the next new data (§6.1.2).
    reduced: bool,
    /// `snd_nxt` at the last reduction for ECE. Until more is acknowledged, what comes is about the same window of data.
    point: SeqNum,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Off,
    /// Our SYN asks for it.
    Asked,
    On,
}

/// A SYN with both asks for it, a SYN-ACK with ECE alone agrees (§6.1.1).
const ASKS: Flags = Flags::ECE.union(Flags::CWR);

impl EcnState {
    pub(crate) fn new(mode: EcnMode, iss: SeqNum) -> Self {
        Self {
            stage: match mode {
                EcnMode::Ask => Stage::Asked,
                EcnMode::Off | EcnMode::Accept => Stage::Off,
            },
            echo: false,
            reduced: false,
            point: iss,
        }
    }

    /// Goes on where another owner has stopped.
    pub(crate) fn put_back(tcb: Option<TcbEcn>, una: SeqNum) -> Self {
        let TcbEcn { echo, reduced } = tcb.unwrap_or_default();
        Self {
            stage: match tcb {
                Some(_) => Stage::On,
                None => Stage::Off,
            },
            echo,
            reduced,
            point: una - 1,
        }
    }

    pub(crate) fn take_out(&self) -> Option<TcbEcn> {
        self.is_on().then_some(TcbEcn {
            echo: self.echo,
            reduced: self.reduced,
        })
    }

    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.stage == Stage::On
    }

    /// One side is still to be told something.
    pub(crate) fn owes(&self) -> bool {
        self.echo | self.reduced
    }

    /// The peer's SYN came to a listener.
    pub(crate) fn accept(&mut self, mode: EcnMode, syn: &Header) {
        let is_agreed = mode != EcnMode::Off && syn.flags.contains(ASKS);
        self.stage = match is_agreed {
            true => Stage::On,
            false => Stage::Off,
        };
    }

    /// The SYN came again. A peer whose first was lost may have given up asking: it must not be sent ECT then.
    pub(crate) fn take_syn_again(&mut self, syn: &Header) {
        if !syn.flags.contains(ASKS) {
            self.stage = Stage::Off;
        }
    }

    /// The peer's SYN or SYN-ACK came in answer to our SYN, or crossed it. Then neither asks.
    pub(crate) fn take_answer(&mut self, syn: &Header) {
        let flags = syn.flags;
        let agrees = flags.contains(Flags::ACK | Flags::ECE) && !flags.contains(Flags::CWR);
        self.stage = match agrees && self.stage == Stage::Asked {
            true => Stage::On,
            false => Stage::Off,
        };
    }

    /// What our SYN has beside. It does not ask again if it was not answered: what drops SYNs that ask is on some paths still
    /// (§6.1.1.1).
    pub(crate) fn syn_flags(&mut self, retries: u8) -> Flags {
        if retries > 0 {
            self.stage = Stage::Off;
        }
        match self.stage {
            Stage::Asked => ASKS,
            Stage::Off | Stage::On => Flags::NONE,
        }
    }

    pub(crate) fn syn_ack_flags(&self) -> Flags {
        match self.is_on() {
            true => Flags::ECE,
            false => Flags::NONE,
        }
    }

    /// What every segment with ACK has beside.
    #[inline]
    pub(crate) fn echo_flag(&self) -> Flags {
        match self.echo {
            true => Flags::ECE,
            false => Flags::NONE,
        }
    }

    /// New data: routers may mark them, and they tell of a reduction (§6.1.2, §6.1.5).
    #[inline]
    pub(crate) fn mark(&mut self, header: &mut Header) {
        if self.is_on() {
            header.ecn = Ecn::Ect0;
            if std::mem::take(&mut self.reduced) {
                header.flags |= Flags::CWR;
            }
        }
    }
}

impl Connection {
    /// Takes what acceptable data say of congestion. A peer that has not been told yet, or has reduced its window, is answered
    /// at once.
    pub(crate) fn take_marks(&mut self, segment: &Header) {
        if segment.flags.contains(Flags::CWR) {
            self.ecn.echo = false;
            self.rcv.ack.now = true;
        }
        if segment.ecn == Ecn::Ce {
            self.events.counted.add(Counted::CongestionExperienced);
            self.rcv.ack.now |= !self.ecn.echo;
            self.ecn.echo = true;
        }
    }

    /// Takes the ECE of an ACK, which has the window reduced once in a window of data, whether for this or for a loss (§6.1.2).
    /// `flight`: what was outstanding before the ACK. Answers whether it is there.
    pub(crate) fn take_echo(&mut self, flags: Flags, flight: u32) -> bool {
        let una = self.snd.una;
        if self.ecn.point.before(una - 1) {
            // Keeps the point comparable.
            self.ecn.point = una - 1;
        }
        if !flags.contains(Flags::ECE) {
            return false;
        }
        if self.recovery.phase == Phase::Open && una.after(self.ecn.point) {
            self.recovery.forget_window();
            self.reduce(flight);
            self.congestion.set_cwnd(self.congestion.ssthresh());
        }
        true
    }

    /// The threshold is lowered, unless that was done for this window of data; the window is the caller's business.
    pub(crate) fn reduce(&mut self, flight: u32) {
        if !self.ecn.is_on() {
            self.congestion.on_congestion(flight);
            return;
        }
        if self.snd.una.at_or_after(self.ecn.point) {
            self.congestion.on_congestion(flight);
        }
        self.ecn.point = self.snd.nxt;
        self.ecn.reduced = true;
    }
}
