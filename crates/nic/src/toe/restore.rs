//! Connections that come, and that go back: their control blocks in host memory.

use tcp::Connection;

use super::entry::{Farewell, Phase};
use super::pieces::Queue;
use super::{Toe, ToeEnv};
use crate::function::Function;
use crate::ring::toe::{
    MAX_HELD, RefuseReason, RestoreReason, TCB_IMAGE_BYTES, TcbField, TcbImage, ToeOffer,
};
use crate::ring::{DeviceRegions, Slice};

impl Toe {
    /// Takes over a connection that is held.
    pub(super) fn accept(
        &mut self,
        env: &mut ToeEnv<'_>,
        at: u32,
        offer: &ToeOffer,
    ) -> Result<(), RefuseReason> {
        let Some(entry) = self.table.get_mut(at) else {
            return Err(RefuseReason::NotHeld);
        };
        if entry.flow != offer.flow.reversed() {
            return Err(RefuseReason::NotHeld);
        }
        let image = read(&env.function.regions, offer.tcb)?;
        let TcbImage { tcb, config, cork } = image.map_err(RefuseReason::Tcb)?;
        Toe::check_ports(&offer.flow, &tcb).map_err(RefuseReason::Tcb)?;
        let most = Toe::most_payload(env.nic.mtu, offer.flow.src.0.is_ipv4());
        if tcb.mss > most {
            return Err(RefuseReason::Tcb(TcbField::Mss));
        }
        let mut connection = Connection::hand_over(env.now, &config, &tcb);
        connection.set_cork(env.now, cork);
        // What the host knows.
        while connection.poll_event().is_some() {}
        entry.sending.queue = Queue::at(tcb.snd_una);
        entry.unreported.reported_una = tcb.snd_una;
        entry.unreported.accepted = true;
        entry.fin_taken = tcb.fin_taken;
        (entry.hop, entry.hop_limit, entry.tcb) = (offer.hop, offer.hop_limit, offer.tcb);
        entry.connection = Some(connection);
        entry.phase = Phase::Running;
        Ok(())
    }

    /// Gives a connection back to its host.
    pub(crate) fn give_back(&mut self, env: &mut ToeEnv<'_>, at: u32, reason: RestoreReason) {
        let Some(entry) = self.table.get_mut(at) else {
            return;
        };
        let Some(connection) = &entry.connection else {
            return;
        };
        // One that is not synchronized has ended.
        let Some(mut tcb) = connection.tcb(env.now) else {
            return;
        };
        // New data that TCP has given out and that has not left was never sent.
        if let Some(rest) = entry.sending.rest.filter(|rest| !rest.retransmit) {
            tcb.snd_nxt = rest.header.seq.max(tcb.snd_una);
        }
        // The peer sends again what is forgotten here (RFC 2018 §8).
        tcb.held.truncate(MAX_HELD);
        let image = TcbImage {
            tcb,
            config: connection.config(),
            cork: connection.is_corked(),
        };
        let written = write(&env.function.regions, entry.tcb, &image);
        if !written {
            // Its memory was there at the offer: the host has taken it away since, and gets what it can have.
            env.function.counters.toe_bad_commands += 1;
        }
        self.leave(env.function, at, Farewell::Restored(reason));
    }

    /// A connection's time is over: the host is notified, and has it again.
    pub(super) fn leave(&mut self, function: &mut Function, at: u32, farewell: Farewell) {
        let Some(entry) = self.table.get_mut(at) else {
            return;
        };
        if entry.counts() {
            self.room.ended();
        }
        entry.phase = Phase::Leaving(farewell);
        entry.sending.rest = None;
        entry.sending.waiting = None;
        self.timers.cancel(at);
        function.nic_packets.hold(entry.toe.index);
        self.wants_events(at);
    }

    /// A connection that was held was not offered in time.
    pub(super) fn expire(&mut self, at: u32) {
        let Some(entry) = self.table.get_mut(at) else {
            return;
        };
        // Its packets are held already.
        self.room.ended();
        entry.phase = Phase::Leaving(Farewell::Expired);
        self.wants_events(at);
    }
}

/// Reads an image once.
fn read(regions: &DeviceRegions, slice: Slice) -> Result<Result<TcbImage, TcbField>, RefuseReason> {
    let mut bytes = [0; TCB_IMAGE_BYTES];
    let (region, offset) = regions.locate(slice).ok_or(RefuseReason::BadMemory)?;
    let fits = slice.len as usize >= TCB_IMAGE_BYTES && region.writable();
    if !fits || !region.read(offset, &mut bytes) || region.is_faulted() {
        return Err(RefuseReason::BadMemory);
    }
    Ok(TcbImage::decode(&bytes))
}

fn write(regions: &DeviceRegions, slice: Slice, image: &TcbImage) -> bool {
    let mut bytes = [0; TCB_IMAGE_BYTES];
    let located = regions.locate(slice);
    image.encode(&mut bytes).is_ok()
        && located.is_some_and(|(region, offset)| region.write(offset, &bytes))
}
