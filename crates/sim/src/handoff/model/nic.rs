//! The NIC's core: queues, priority, load control, and TCP for the connections that it has (Connection handoff policies §3).

use std::collections::VecDeque;

use ::nic::toe::load::{LoadConfig, LoadControl, LoadState};
use tcp::{Event as TcpEvent, State};

use super::host::{self, Message};
use super::{Event, Near, Owner, Packet, PairId, Pico, SEND_BUFFER, World};
use crate::handoff::costs::NicCosts;
use crate::handoff::{Config, Costs};

/// What waits for the core.
#[derive(Clone, Copy, Debug)]
pub(super) enum Work {
    /// A received packet for the host.
    HostReceived(u32),
    /// A packet that the host sends.
    HostSent(u32),
    /// A received packet of a connection of the NIC.
    Received(u32),
    /// A handoff command.
    Command(PairId, Command),
    /// Timers of a connection of the NIC.
    Timer(PairId),
}

/// What the host asks for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Command {
    HandOff,
    Restore,
    /// Bytes are appended to the send buffer.
    Send(u32),
    Close,
}

/// What leaves the core when its work is done.
#[derive(Clone, Copy, Debug)]
enum Output {
    /// A packet of the host, to the wire.
    HostPacket(u32),
    /// A packet of the NIC's, to the wire.
    Packet(u32),
    /// Something to the host.
    Host(host::Work),
}

#[derive(Debug)]
pub(super) struct Nic {
    costs: NicCosts,
    /// Picoseconds of an instruction, in 1024ths.
    instruction: u64,
    host_first: bool,
    /// What goes first if host packets do; else empty.
    host: VecDeque<Work>,
    /// All else.
    queue: VecDeque<Work>,
    /// Received packets that wait.
    host_waiting: u32,
    /// Packets of the host that wait to be sent.
    sends_waiting: u32,
    /// Qlen.
    waiting: u32,
    load: LoadControl,
    load_control: bool,
    active_restore: bool,
    /// Connections on the NIC: Cnum of them.
    connections: Vec<PairId>,
    busy: bool,
    /// Instructions of the work that the core is at.
    bill: u64,
    outputs: Vec<Output>,
}

impl Nic {
    pub fn new(config: &Config, costs: &Costs) -> Self {
        let costs = costs.nic;
        Self {
            costs,
            instruction: (1 << 10) * 1_000_000 / u64::from(config.nic_mips.max(1)),
            host_first: config.host_first,
            host: VecDeque::new(),
            queue: VecDeque::new(),
            host_waiting: 0,
            sends_waiting: 0,
            waiting: 0,
            load: LoadControl::new(LoadConfig {
                hard_limit: config.nic_connections,
                hiwat: costs.hiwat,
                lowat: costs.lowat,
            }),
            load_control: config.load_control,
            active_restore: config.active_restore,
            connections: Vec::new(),
            busy: false,
            bill: 0,
            outputs: Vec::new(),
        }
    }

    /// Appends work to the queue where it belongs.
    pub fn queue(&mut self, work: Work) {
        let host = matches!(work, Work::HostReceived(_) | Work::HostSent(_));
        if host && self.host_first {
            self.host.push_back(work);
        } else {
            self.queue.push_back(work);
        }
    }

    /// Soft_limit, Cnum, Qlen.
    pub fn parameters(&self) -> (u32, u32, u32) {
        (self.load.soft_limit(), self.cnum(), self.waiting)
    }

    fn cnum(&self) -> u32 {
        self.connections.len() as u32
    }

    /// What one of the load control's three happenings gives, if there is load control.
    fn control(&mut self, happens: fn(&mut LoadControl, u32, u32) -> Option<u32>) -> Option<u32> {
        let (qlen, cnum) = (self.waiting, self.cnum());
        self.load_control
            .then(|| happens(&mut self.load, qlen, cnum))
            .flatten()
    }

    fn tell(&mut self, message: Message, id: PairId) {
        self.bill += self.costs.event;
        self.outputs
            .push(Output::Host(host::Work::Message(id, message)));
    }
}

impl World {
    /// A packet has come: looked up, and queued or dropped.
    pub(super) fn nic_receives(&mut self, packet: u32) {
        let id = self.packets[packet as usize].pair;
        let on_nic = self.near(id).is_some_and(|near| near.owner == Owner::Nic);
        self.measure.packet(self.now, on_nic);
        self.packets[packet as usize].at = self.now;
        let nic = &mut self.nic;
        // The core does this between two pieces of other work.
        nic.bill += nic.costs.lookup;
        let full = match (nic.host_first, on_nic) {
            (true, true) => nic.waiting >= nic.costs.receive_queue,
            (true, false) => nic.host_waiting >= nic.costs.receive_ring,
            (false, _) => nic.waiting + nic.host_waiting >= nic.costs.receive_ring,
        };
        if full {
            self.measure.dropped();
            self.drop_packet(packet);
        } else if on_nic {
            nic.waiting += 1;
            nic.queue(Work::Received(packet));
        } else {
            nic.host_waiting += 1;
            nic.queue(Work::HostReceived(packet));
        }
        let told = self.nic.control(LoadControl::packet_arrived);
        self.nic_limit(told);
    }

    /// The host sends a packet.
    pub(super) fn nic_takes(&mut self, packet: u32) {
        if self.nic.sends_waiting >= self.nic.costs.transmit_ring {
            self.measure.dropped();
            self.drop_packet(packet);
            return;
        }
        self.packets[packet as usize].at = self.now;
        self.nic.sends_waiting += 1;
        self.nic.queue(Work::HostSent(packet));
    }

    /// The core does what is next, if it is free.
    pub(super) fn nic_works(&mut self) {
        while !self.nic.busy && self.nic_work() {
            if self.nic.outputs.is_empty() && self.nic.bill == 0 {
                continue;
            }
            let time = (self.nic.bill * self.nic.instruction) >> 10;
            self.nic.bill = 0;
            self.nic.busy = true;
            self.measure.nic_worked(time);
            self.at(self.now + time, Event::NicDone);
        }
    }

    fn nic_work(&mut self) -> bool {
        if let Some(work) = self.nic.host.pop_front() {
            self.nic_does(work);
        } else if let Some(work) = self.nic.queue.pop_front() {
            self.nic_does(work);
        } else {
            return false;
        }
        true
    }

    /// What the work gave leaves the NIC.
    pub(super) fn nic_done(&mut self) {
        self.nic.busy = false;
        let dma = self.nic.costs.dma_nanos * 1000;
        let mut outputs = std::mem::take(&mut self.nic.outputs);
        for output in outputs.drain(..) {
            match output {
                Output::HostPacket(packet) => {
                    let took = self.now - self.packets[packet as usize].at + dma;
                    self.measure.host_sent(took);
                    self.measure.packet(self.now, false);
                    self.send_to_client(packet);
                }
                Output::Packet(packet) => {
                    self.measure.packet(self.now, true);
                    self.send_to_client(packet);
                }
                Output::Host(work) => {
                    if let host::Work::Packet(packet) = work {
                        let took = self.now - self.packets[packet as usize].at + dma;
                        self.measure.host_received(took);
                    }
                    self.host.interrupt(work);
                }
            }
        }
        self.nic.outputs = outputs;
    }

    fn nic_does(&mut self, work: Work) {
        let costs = self.nic.costs;
        match work {
            Work::HostReceived(packet) => {
                self.nic.host_waiting -= 1;
                self.nic.bill += costs.host_receive;
                let work = host::Work::Packet(packet);
                self.nic.outputs.push(Output::Host(work));
            }
            Work::HostSent(packet) => {
                self.nic.sends_waiting -= 1;
                self.nic.bill += costs.host_transmit;
                self.nic.outputs.push(Output::HostPacket(packet));
            }
            Work::Received(packet) => {
                self.nic.waiting -= 1;
                self.nic_processes(packet);
            }
            Work::Command(id, command) => {
                self.nic.bill += costs.command;
                self.nic_obeys(id, command);
            }
            Work::Timer(id) => {
                self.nic.bill += costs.timer;
                let now = self.instant();
                if let Some(near) = self.near(id) {
                    near.tcp.handle_timeout(now);
                    self.nic_follows(id);
                }
            }
        }
    }

    /// TCP's input.
    fn nic_processes(&mut self, packet: u32) {
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
    fn nic_follows(&mut self, id: PairId) {
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

    fn nic_obeys(&mut self, id: PairId, command: Command) {
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
    pub(super) fn nic_loses(&mut self, place: Option<u32>) {
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
    fn nic_limit(&mut self, told: Option<u32>) {
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
