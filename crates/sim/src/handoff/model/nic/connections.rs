//! The connections that the NIC has: TCP for them, what the host asks for, and which are given back (Connection handoff policies §3).

use ::nic::toe::load::{LoadControl, LoadState};
use tcp::{Event as TcpEvent, State};

use super::super::host::{self, Message};
use super::super::{Near, Owner, Packet, PairId, Pico, SEND_BUFFER, World};
use super::{Command, Output};

impl World {
    /// TCP's input.
    pub(super) fn nic_processes(&mut self, packet: u32) {
        let Packet {
            pair: id,
            header,
            payload,
            ..
        } = self.packets[packet as usize];
        self.nic.bill += self.nic.costs.receive;
        let (now, time) = (self.instant(), self.now);
        let Some(near) = self.near(id) else {
            self.drop_packet(packet);
            return;
        };
        if near.owner == Owner::Host {
            // It was restored while the packet waited: the host's, behind what it was told.
            self.nic
                .outputs
                .push(Output::Host(host::Work::Packet(packet)));
            return;
        }
        near.count(time);
        near.tcp.handle_segment(now, &header, payload, 1);
        let bytes = near.tcp.unread();
        near.tcp.consumed(now, bytes);
        self.drop_packet(packet);
        if bytes > 0 {
            self.nic.tell(Message::Delivered(bytes), id);
        }
        self.nic_follows(id);
    }

    /// What TCP has to tell and to send.
    pub(super) fn nic_follows(&mut self, id: PairId) {
        while let Some(near) = self.near(id) {
            let message = match near.tcp.poll_event() {
                Some(TcpEvent::Acked(una)) => {
                    near.untold += near.acknowledged.distance_to(una);
                    near.acknowledged = una;
                    // All of it, or a quarter of the buffer.
                    let all = una == near.tcp.write_seq();
                    if !all && near.untold < SEND_BUFFER / 4 {
                        continue;
                    }
                    Message::Acked(std::mem::take(&mut near.untold))
                }
                Some(TcpEvent::PeerFin) => Message::PeerFin,
                Some(TcpEvent::Closed(_)) => {
                    self.nic.tell(Message::Closed, id);
                    self.near_ends(id);
                    return;
                }
                Some(_) => continue,
                None => break,
            };
            self.nic.tell(message, id);
        }
        self.nic_sends(id);
    }

    /// Sends all that TCP may send now: the firmware runs each piece of work to its end.
    fn nic_sends(&mut self, id: PairId) {
        let (now, time) = (self.instant(), self.now);
        while let Some(near) = self.near(id).filter(|near| near.owner == Owner::Nic) {
            let Some(transmit) = near.tcp.poll_transmit(now) else {
                break;
            };
            near.count(time);
            let packet = self.new_packet(Packet {
                pair: id,
                header: transmit.header,
                payload: transmit.payload,
                at: self.now,
            });
            self.nic.bill += self.nic.costs.transmit;
            self.nic.outputs.push(Output::Packet(packet));
        }
        self.arm_near(id);
    }

    pub(super) fn nic_obeys(&mut self, id: PairId, command: Command) {
        let now = self.instant();
        let limit = self.nic.load.soft_limit();
        let (cnum, place) = (self.nic.cnum(), self.nic.cnum());
        let Some(near) = self.near(id) else { return };
        match command {
            Command::HandOff => {
                let open = matches!(near.tcp.state(), State::Established | State::CloseWait);
                if cnum >= limit || !open {
                    near.owner = Owner::Host;
                    self.measure.refused();
                    self.nic.tell(Message::Refused, id);
                    return;
                }
                near.was_on_nic = true;
                near.place = Some(place);
                self.nic.connections.push(id);
                self.nic.bill += self.nic.costs.hand_off;
                self.measure.handed_off();
                self.nic.tell(Message::Accepted, id);
                let told = self.nic.control(LoadControl::handed_off);
                self.nic_limit(told);
                self.nic_sends(id);
            }
            Command::Restore => self.nic_restores(id),
            Command::Send(bytes) => {
                near.tcp.queue(now, bytes);
                self.nic_carries_out(id);
            }
            Command::Close => {
                near.tcp.close(now);
                self.nic_carries_out(id);
            }
        }
    }

    /// Something is to be sent; by the host, if it has the connection back by now.
    fn nic_carries_out(&mut self, id: PairId) {
        match self.near(id).map(|near| near.owner) {
            Some(Owner::Nic) => self.nic_sends(id),
            Some(Owner::Host) => self.nic.tell(Message::Again, id),
            None => {}
        }
    }

    /// Gives a connection back.
    fn nic_restores(&mut self, id: PairId) {
        let Some(near) = self.near(id) else { return };
        if near.place.is_none() {
            return;
        }
        near.owner = Owner::Host;
        let untold = std::mem::take(&mut near.untold);
        let place = near.place.take();
        self.nic.bill += self.nic.costs.hand_off;
        self.measure.restored();
        self.nic.tell(Message::Restored(untold), id);
        self.nic_loses(place);
    }

    /// One connection less.
    pub(in crate::handoff::model) fn nic_loses(&mut self, place: Option<u32>) {
        let Some(place) = place else { return };
        self.nic.connections.swap_remove(place as usize);
        if let Some(&moved) = self.nic.connections.get(place as usize)
            && let Some(near) = self.near(moved)
        {
            near.place = Some(place);
        }
        let told = self.nic.control(LoadControl::terminated);
        self.nic_limit(told);
    }

    /// Soft_limit has changed, if there is load control at all.
    pub(super) fn nic_limit(&mut self, told: Option<u32>) {
        let Some(limit) = told else { return };
        let lowered = self.nic.load.state() == LoadState::Decrease;
        let nobody = PairId {
            index: u32::MAX,
            generation: 0,
        };
        self.nic.tell(Message::SoftLimit(limit), nobody);
        if !(lowered && self.nic.active_restore) {
            return;
        }
        let above = (self.nic.cnum() + 1).saturating_sub(limit);
        for _ in 0..above {
            if let Some(id) = self.nic_busiest() {
                self.nic_restores(id);
            }
        }
    }

    /// The connection with the most packets of late, of eight.
    fn nic_busiest(&mut self) -> Option<PairId> {
        let now = self.now;
        let count = self.nic.connections.len();
        let mut busiest = None;
        for look in 0..count.min(8) {
            self.order += 1;
            let at = (self.order.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33) as usize + look;
            let id = self.nic.connections[at % count];
            let load = self.near(id).map_or(0.0, |near| near.faded(now));
            if busiest.is_none_or(|(_, most)| load > most) {
                busiest = Some((id, load));
            }
        }
        busiest.map(|(id, _)| id)
    }
}

impl Near {
    fn count(&mut self, now: Pico) {
        self.load = self.faded(now) + 1.0;
        self.load_at = now;
    }

    /// Packets of the last tenth of a second or so.
    fn faded(&self, now: Pico) -> f32 {
        let tenths = (now - self.load_at) as f32 / 1e11;
        self.load * (-tenths).exp()
    }
}
