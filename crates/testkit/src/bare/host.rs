//! The host.

use std::collections::VecDeque;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use nic::ring::{
    Block, DeviceFunction, ErrorCode, FunctionConfig, HostFunction, RecvDescriptor, Regions,
    SendDescriptor, Slice, function,
};
use nic::{FunctionId, Nic};

use super::{Delivered, Memory, Part};

/// Bytes that every host has for what it sends.
pub const MEMORY: usize = 1 << 18;
/// Where a guest's memory begins on its bus.
const BUS: u64 = 1 << 32;

/// A host: a function with memory. Each queue's buffers are in one region, and are the host's again once it takes the packet.
#[derive(Debug)]
pub struct BareHost {
    function: HostFunction,
    /// The function at its NIC.
    pub id: FunctionId,
    /// Memory for what it sends.
    pub memory: Memory,
    buffers: Option<Memory>,
    /// By queue, where small and large buffers begin that the NIC has not got.
    free: Vec<[VecDeque<u64>; 2]>,
    /// Where a guest's next memory is on its bus.
    next: Option<u64>,
}

impl Deref for BareHost {
    type Target = HostFunction;

    fn deref(&self) -> &HostFunction {
        &self.function
    }
}

impl DerefMut for BareHost {
    fn deref_mut(&mut self) -> &mut HostFunction {
        &mut self.function
    }
}

impl BareHost {
    /// A new function of the NIC's, which has no buffers to fill yet.
    pub fn attach(nic: &mut Nic, config: FunctionConfig) -> BareHost {
        let (function, device) = function(config);
        let id = nic.attach(device).expect("a free address");
        let memory = Memory::register(&function, MEMORY);
        BareHost {
            function,
            id,
            memory,
            buffers: None,
            free: Vec::new(),
            next: None,
        }
    }

    /// As [`attach`](Self::attach), of one queue and as a virtual machine's: rings and memory are parts of the machine's, which descriptors name by
    /// addresses on its bus.
    pub fn attach_guest(nic: &mut Nic, config: FunctionConfig) -> BareHost {
        let (regions, bytes) = (Arc::new(Regions::default()), config.block_bytes());
        let mut next = BUS;
        let mut map = |bytes| map_next(&regions, &mut next, bytes);
        let (rings, memory) = (map(bytes), map(MEMORY));
        let start = rings.region.as_ptr();
        // SAFETY: the region has so many bytes, from a whole page on, and nothing else reaches them.
        let block = Arc::new(unsafe { Block::from_raw_parts(start, bytes, rings.region) });
        let function = HostFunction::over(&block, config, Arc::clone(&regions));
        let device = DeviceFunction::over_each(&[block], config, regions);
        let device = device.expect("new rings are empty");
        BareHost {
            id: nic.attach(device).expect("a free address"),
            function,
            memory,
            buffers: None,
            free: Vec::new(),
            next: Some(next),
        }
    }

    /// So many bytes of memory more.
    pub fn allocate(&mut self, bytes: usize) -> Memory {
        match &mut self.next {
            None => Memory::register(&self.function, bytes),
            Some(next) => map_next(&self.function.regions, next, bytes),
        }
    }

    /// Bytes of a queue's small buffers, and of its large ones.
    fn areas(&self) -> [u64; 2] {
        let config = &self.config;
        [
            u64::from(config.small_entries) * u64::from(config.small_bytes),
            u64::from(config.large_entries) * u64::from(config.large_bytes),
        ]
    }

    /// The memory of the buffers.
    pub fn buffers(&mut self) -> &Memory {
        let (areas, queues) = (self.areas(), self.queues.len() as u64);
        let buffers = match self.buffers.take() {
            Some(buffers) => buffers,
            None => {
                let starts =
                    |from: u64, len: u64, step: u32| (from..from + len).step_by(step as usize);
                for queue in 0..queues {
                    let from = queue * (areas[0] + areas[1]);
                    self.free.push([
                        starts(from, areas[0], self.config.small_bytes).collect(),
                        starts(from + areas[0], areas[1], self.config.large_bytes).collect(),
                    ]);
                }
                self.allocate((queues * (areas[0] + areas[1])) as usize)
            }
        };
        self.buffers.insert(buffers)
    }

    /// Gives each queue up to so many small and large buffers more, as far as there are any.
    pub fn fill(&mut self, small: usize, large: usize) {
        let buffers = self.buffers().clone();
        let lens = [self.config.small_bytes, self.config.large_bytes];
        for (queue, free) in self.function.queues.iter_mut().zip(&mut self.free) {
            let rings = [&mut queue.small, &mut queue.large];
            let classes = rings.into_iter().zip(free).zip(lens);
            for (((ring, free), len), most) in classes.zip([small, large]) {
                for _ in 0..most {
                    if free.is_empty() || ring.free(1) == 0 {
                        break;
                    }
                    let start = free.pop_front().expect("a buffer");
                    assert!(ring.push(buffers.slice(start, len)));
                }
            }
            let _ = queue.publish();
        }
    }

    /// Gives the NIC every buffer that it has not got.
    pub fn refill(&mut self) {
        self.fill(usize::MAX, usize::MAX);
    }

    /// What a queue's receive ring has next. The buffer of a packet is the host's, and holds the packet until it is given away again.
    pub fn pop(&mut self, queue: usize) -> Option<RecvDescriptor> {
        let descriptor = self.function.queues[queue].recv.pop()?;
        if let RecvDescriptor::Packet(packet) = &descriptor {
            self.take_back(packet.buffer);
        }
        Some(descriptor)
    }

    fn take_back(&mut self, buffer: Slice) {
        let Some(buffers) = self.buffers.as_ref().filter(|it| it.has(buffer)) else {
            return;
        };
        let buffer = Slice {
            offset: buffer.offset - buffers.start,
            ..buffer
        };
        let [small, large] = self.areas();
        let queue = buffer.offset / (small + large);
        let from = queue * (small + large);
        let (class, from, len) = match buffer.offset - from < small {
            true => (0, from, self.config.small_bytes),
            false => (1, from + small, self.config.large_bytes),
        };
        let start = buffer.offset - (buffer.offset - from) % u64::from(len);
        self.free[queue as usize][class].push_back(start);
    }

    /// What all receive rings have. What was taken, and what was posted, is shown to the NIC.
    pub fn take(&mut self) -> Vec<RecvDescriptor> {
        let mut taken = Vec::new();
        for queue in 0..self.queues.len() {
            taken.extend(std::iter::from_fn(|| self.pop(queue)));
        }
        self.publish();
        taken
    }

    /// Shows the NIC what was posted on all queues.
    pub fn publish(&mut self) {
        for queue in &mut self.queues {
            let _ = queue.publish();
        }
    }

    /// Posts to the send ring of the first queue.
    pub fn post(&mut self, descriptor: &SendDescriptor<'_>) -> u64 {
        let send = &mut self.queues[0].send;
        send.post(descriptor).expect("room in the ring")
    }

    /// The packet of a descriptor, with its bytes.
    pub fn read(&self, descriptor: RecvDescriptor) -> Option<Delivered> {
        let RecvDescriptor::Packet(packet) = descriptor else {
            return None;
        };
        let buffers = self.buffers.as_ref().expect("buffers");
        Some(Delivered {
            packet,
            bytes: buffers.get(packet.buffer),
            placed: Vec::new(),
            notes: Vec::new(),
        })
    }

    /// Packets with what belongs to them, and all else.
    pub fn sort(&self, taken: Vec<RecvDescriptor>) -> (Vec<Delivered>, Vec<RecvDescriptor>) {
        let (mut packets, mut others): (Vec<Delivered>, _) = (Vec::new(), Vec::new());
        for descriptor in taken {
            let behind = packets.last_mut().filter(|packet| !packet.is_complete());
            match (descriptor, behind) {
                (RecvDescriptor::Placed { at, slice, tag }, Some(packet)) => {
                    let at = at as usize..(at + slice.len) as usize;
                    packet.placed.push(Part { at, slice, tag });
                }
                (RecvDescriptor::Notes { notes, count }, Some(packet)) => {
                    packet.notes.extend(&notes[..usize::from(count)]);
                }
                (other, Some(packet)) => panic!("{other:?} before the rest of {packet:?}"),
                (RecvDescriptor::Packet(_), None) => packets.extend(self.read(descriptor)),
                (other, None) => others.push(other),
            }
        }
        assert!(packets.last().is_none_or(Delivered::is_complete));
        (packets, others)
    }

    /// The errors that the host is told of, with the descriptors that they are about. All else is taken too.
    pub fn errors(&mut self) -> Vec<(u64, ErrorCode)> {
        let taken = self.take().into_iter();
        let errors = taken.filter_map(|descriptor| match descriptor {
            RecvDescriptor::Completion {
                send_index, error, ..
            } => Some((send_index, error)),
            _ => None,
        });
        errors.collect()
    }

    /// The errors alone.
    pub fn codes(&mut self) -> Vec<ErrorCode> {
        self.errors().into_iter().map(|(_, error)| error).collect()
    }
}

fn map_next(regions: &Regions, next: &mut u64, bytes: usize) -> Memory {
    let memory = Memory::map(regions, *next, bytes);
    *next += bytes.next_multiple_of(4096) as u64;
    memory
}
