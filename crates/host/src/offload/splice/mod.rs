//! Two connections whose relaying the NIC takes over (AccelTCP, "Connection splicing").
//!
//! ```text
//!               all acknowledged              settled, no refusal            unsplice, idle
//!  splice ─▶ Draining ────────────▶ Posted ────────────────────▶ Relaying ──────────────▶ both sockets live again
//!               │                     │                             │ FINs, RST
//!               └─ refused ◀──────────┘ the NIC refuses             └──────────────────▶ both connections are over
//! ```
//!
//! A connection has one owner. Until the descriptor is posted that is the host; from then on the host touches neither
//! connection: no timer, no segment. A frame of theirs that still comes up was received before the NIC had them, and goes back
//! to the NIC behind the descriptor. When the NIC has refused, that frame comes up once more, after the refusal.
//!
//! While the NIC gives a splice back it forwards nothing new, and passes up what is: the host keeps that until it has the
//! connections.

mod back;
mod drain;
mod report;
mod table;
mod watch;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use tcp::State;
use wire::ethernet::MacAddr;

use super::ConnectionOffload;
use crate::events::Source;
use crate::socket::{ReceiveSide, SendSide, Socket, SplicePart, User};
use crate::{Event, SocketError, SocketId, SpliceHandle, SpliceOptions, SpliceRefused};
use table::{Leaving, Phase, Spliced};

pub(crate) use table::Splices;

/// How long acknowledgments are waited for.
const DRAIN: Duration = Duration::from_secs(1);

impl ConnectionOffload {
    /// Gives two established connections to the NIC, once both are drained.
    ///
    /// # Errors
    /// Why the two can't be spliced, as far as the host knows: they are untouched then, and the caller relays on.
    pub fn splice(
        &mut self,
        now: Instant,
        a: SocketId,
        b: SocketId,
        options: SpliceOptions,
    ) -> Result<SpliceHandle, SpliceRefused> {
        if !self.transport.config.accel.splice {
            return Err(SpliceRefused::Off);
        }
        if a == b {
            return Err(SpliceRefused::Same);
        }
        for id in [a, b] {
            self.promote_to_full_tcb(id);
        }
        let (first, second) = (self.splicable(a)?, self.splicable(b)?);
        agree(first, second, now)?;
        let handle = self.splices.insert(Spliced {
            sockets: [a, b],
            idle: options.idle,
            hops: [MacAddr([0; 6]); 2],
            phase: Phase::Draining,
            kept: VecDeque::new(),
            is_called_back: false,
            leaving: [None; 2],
            path_mss: [None; 2],
            ended: None,
            states: [None; 2],
        });
        let handle = handle.ok_or(SpliceRefused::TableFull)?;
        self.splices.draining.push_back((now + DRAIN, handle));
        for (side, id) in [a, b].into_iter().enumerate() {
            // One that the NIC runs is the host's first.
            self.recall(now, id);
            let Some(socket) = self.transport.sockets.get_mut(id) else {
                continue;
            };
            socket.owner.begin_splice(SplicePart {
                splice: handle,
                side,
            });
            socket.tcp.acknowledge_now();
            self.transport.schedule.mark_ready(id, socket);
        }
        Ok(handle)
    }

    /// Asks the NIC how far it has relayed, if it does.
    ///
    /// # Errors
    /// [`SocketError::NotFound`] when the splice has ended already.
    pub fn query_splice(&mut self, splice: SpliceHandle) -> Result<(), SocketError> {
        let spliced = self.splices.get(splice).ok_or(SocketError::NotFound)?;
        // A refusal must not be taken for that of the splice.
        if matches!(spliced.phase, Phase::Relaying) {
            let device = &mut self.transport.device;
            device.driver.query_splice(Splices::number(splice));
            device.flush();
        }
        Ok(())
    }

    /// Takes a splice back.
    ///
    /// # Errors
    /// [`SocketError::NotFound`] when it has ended already.
    pub fn unsplice(&mut self, now: Instant, splice: SpliceHandle) -> Result<(), SocketError> {
        let spliced = self.splices.get(splice).ok_or(SocketError::NotFound)?;
        if matches!(spliced.phase, Phase::Draining) {
            self.refuse_splice(now, splice, SpliceRefused::TakenBack);
        } else {
            self.call_back(splice);
        }
        Ok(())
    }

    /// Asks the NIC to give a splice back, once.
    pub(super) fn call_back(&mut self, handle: SpliceHandle) {
        let Some(spliced) = self.splices.get_mut(handle) else {
            return;
        };
        if !std::mem::replace(&mut spliced.is_called_back, true) {
            let device = &mut self.transport.device;
            device.driver.unsplice(Splices::number(handle));
            device.flush();
        }
    }

    /// The application closes or aborts a socket that is part of a splice. False when the socket is none any more, or the host's again:
    /// then that is to be done at once.
    ///
    /// # Errors
    /// [`SocketError::NotFound`] when the application has given it up before.
    pub fn leave_splice(
        &mut self,
        now: Instant,
        id: SocketId,
        abort: bool,
    ) -> Result<bool, SocketError> {
        let Some(socket) = self.transport.sockets.get(id) else {
            return Ok(false);
        };
        let Some(part) = socket.owner.splice() else {
            return Ok(false);
        };
        if socket.user != User::Application {
            return Err(SocketError::NotFound);
        }
        if socket.owner.spliced().is_none() {
            self.refuse_splice(now, part.splice, SpliceRefused::TakenBack);
            return Ok(false);
        }
        let Some(spliced) = self.splices.get_mut(part.splice) else {
            return Ok(false);
        };
        let leaving = if abort {
            Leaving::Abort
        } else {
            Leaving::Close
        };
        spliced.leaving[part.side] = Some(leaving);
        if let Some(socket) = self.transport.sockets.get_mut(id) {
            socket.user = User::Released;
        }
        self.call_back(part.splice);
        Ok(true)
    }

    /// A socket, if it may be spliced as far as can be told of it alone.
    fn splicable(&self, id: SocketId) -> Result<&Socket, SpliceRefused> {
        let socket = self.transport.sockets.get(id);
        let socket = socket.filter(|socket| socket.user == User::Application);
        let socket = socket.ok_or(SpliceRefused::NotFound(id))?;
        if socket.owner.splice().is_some() {
            return Err(SpliceRefused::Spliced(id));
        }
        if socket.is_secured() {
            return Err(SpliceRefused::Secured(id));
        }
        if !socket.is_plain() {
            return Err(SpliceRefused::Pdus(id));
        }
        let is_open = socket.tcp.state() == State::Established
            && socket.ended.is_none()
            && socket.sending == SendSide::Open
            && socket.receive == ReceiveSide::Open;
        if !is_open {
            return Err(SpliceRefused::NotEstablished(id));
        }
        if socket.stream.segments() > 0 || socket.tcp.unread() > 0 {
            return Err(SpliceRefused::Unread(id));
        }
        Ok(socket)
    }

    /// The other socket of a socket's splice.
    pub fn spliced_with(&self, socket: &Socket) -> Option<SocketId> {
        let part = socket.owner.splice()?;
        let spliced = self.splices.get(part.splice)?;
        Some(spliced.sockets[1 - part.side])
    }

    /// The next event of a splice.
    pub fn poll_splice_event(&mut self) -> Option<Event> {
        self.splices.told.pop_front()
    }

    /// Tells the application something about a splice.
    fn tell_of_splice(&mut self, event: Event) {
        self.splices.told.push_back(event);
        self.transport.schedule.events.push(Source::Splice);
    }
}

/// Whether the numbers of one connection can be translated into the other's.
fn agree(a: &Socket, b: &Socket, now: Instant) -> Result<(), SpliceRefused> {
    if a.flow.src.0.is_ipv4() != b.flow.src.0.is_ipv4() {
        return Err(SpliceRefused::Family);
    }
    let (Some(a), Some(b)) = (a.tcp.tcb(now), b.tcp.tcb(now)) else {
        // Both were found to be established.
        return Err(SpliceRefused::Unsupported);
    };
    if a.timestamps.is_some() != b.timestamps.is_some() {
        return Err(SpliceRefused::Timestamps);
    }
    if a.sack != b.sack {
        return Err(SpliceRefused::Sack);
    }
    for (from, to) in [(&a, &b), (&b, &a)] {
        if from.adv_mss > to.mss {
            return Err(SpliceRefused::Mss(from.adv_mss, to.mss));
        }
    }
    Ok(())
}
