//! The NIC's core: queues, priority, load control, and the connections that it has (Connection handoff policies §3).

mod connections;

use std::collections::VecDeque;

use ::nic::toe::load::{LoadConfig, LoadControl};

use super::host::{self, Message};
use super::{Event, Owner, PairId, World};
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
}
