//! The send ring: what each descriptor takes in memory, what the device makes of it, and of what is wrong in it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use zerocopy::IntoBytes;

use super::super::super::block::Block;
use super::super::super::function::{DeviceFunction, FunctionConfig, HostFunction};
use super::super::super::gather::Gather;
use super::super::super::layout::{self, SLOT_WORDS, clear_reserved, constants, layouts};
use super::super::super::regions::Regions;
use super::super::super::*;
use super::super::renewal;
use super::{alter, clip, compare, samples, words};
use crate::features::Features;
use testkit::written::sum;

type Slot = [u64; SLOT_WORDS];

/// Both ends of a ring.
struct Ring {
    host: HostFunction,
    device: DeviceFunction,
    block: Arc<Block>,
}

impl Ring {
    fn new() -> Ring {
        let config = FunctionConfig {
            features: Features::ALL,
            ..renewal::config()
        };
        let block = Arc::new(Block::allocate(config.block_bytes()));
        let regions = Arc::new(Regions::default());
        Ring {
            host: HostFunction::over(&block, config, Arc::clone(&regions)),
            device: DeviceFunction::over(&block, config, regions).expect("empty rings"),
            block,
        }
    }

    /// Posts a descriptor; its slots as the device will find them.
    fn post(&mut self, descriptor: &SendDescriptor<'_>) -> Vec<Slot> {
        const FIRST: usize = 48;
        let send = &mut self.host.queues[0].send;
        let index = send.post(descriptor).expect("room");
        let slots = index..send.posted();
        let _ = self.host.queues[0].publish();
        let slot = |index: u64| {
            let at = FIRST + (index % 8) as usize * SLOT_WORDS;
            std::array::from_fn(|word| self.block.words()[at + word].load(Ordering::Relaxed))
        };
        slots.map(slot).collect()
    }

    /// All that the device takes: why the first was refused, and the whole of it.
    fn take(&mut self) -> (String, String) {
        let send = &mut self.device.queues[0].send;
        let (mut gather, first) = (Gather::EMPTY, send.next());
        let (mut name, mut whole) = (String::new(), String::new());
        while let Some(taken) = send.take(&mut gather) {
            let told = match &taken.command {
                Ok(Command::Send(send)) => {
                    let header = sum(&send.header[..usize::from(send.header_len)]);
                    let Send {
                        header_len,
                        mss,
                        context,
                        flags,
                        payload_len,
                        ..
                    } = send;
                    format!(
                        "Send {header_len} {header:x} {mss} {context:?} {flags:?} {payload_len}"
                    )
                }
                Ok(Command::Create(create)) => {
                    format!("{create:?} {:x}", sum(create.layers.encoded()))
                }
                Ok(command) => format!("{command:?}"),
                Err(bad) => format!("{bad:?}"),
            };
            if name.is_empty() {
                let error = taken.command.as_ref().err().map(|bad| bad.error);
                name = error.map_or("as ever".to_owned(), |error| format!("{error:?}"));
            }
            let (index, bytes) = (taken.index - first, taken.bytes);
            whole += &format!("{index} {bytes} bytes {told} {:?} ", gather.slices());
        }
        send.publish();
        let send = &mut self.host.queues[0].send;
        assert_eq!(send.completed(), send.posted());
        (name, whole)
    }

    fn take_raw(&mut self, slots: &[Slot]) -> (String, String) {
        for slot in slots {
            self.host.queues[0].send.post_raw(slot).expect("room");
        }
        let _ = self.host.queues[0].publish();
        self.take()
    }
}

#[test]
#[cfg_attr(miri, ignore = "it reads a file")]
fn descriptors_are_as_written_down() {
    let mut lines = Vec::new();
    let mut ring = Ring::new();
    samples::each(|name, descriptor| {
        let slots = ring.post(descriptor);
        let (_, whole) = ring.take();
        lines.push(clip(&format!("{name}: {}", words(slots.concat()))));
        lines.push(clip(&format!("  {whole}")));
    });
    compare("descriptors", &lines);
}

/// Each byte in turn is something else; and so is how many slots have come.
#[test]
#[cfg_attr(miri, ignore = "it reads a file")]
fn every_wrong_byte_is_refused_as_written_down() {
    let mut lines = Vec::new();
    let mut ring = Ring::new();
    samples::each(|name, descriptor| {
        let mut slots = ring.post(descriptor);
        ring.take();
        // All of the first slot; of those behind it what tells of their slices, and two of these.
        let is_looked_at = |at: &usize| *at < size_of::<Slot>() || at % size_of::<Slot>() < 48;
        let places = (0..slots.len() * size_of::<Slot>()).filter(is_looked_at);
        let taken = alter(slots.clone().as_mut_bytes(), places, |bytes| {
            slots.as_mut_bytes().copy_from_slice(bytes);
            ring.take_raw(&slots)
        });
        lines.push(clip(&format!("{name}: {taken}")));
    });
    compare("wrong_bytes", &lines);
}

/// A descriptor without its continuations, with others' slots in their place, or with more than it says.
#[test]
#[cfg_attr(miri, ignore = "it reads a file")]
fn slots_that_are_missing_are_refused_as_written_down() {
    let mut lines = Vec::new();
    let mut ring = Ring::new();
    let destroy = ring.post(&SendDescriptor::DestroyContext {
        context: ContextId(5),
    });
    ring.take();
    samples::each(|name, descriptor| {
        let slots = ring.post(descriptor);
        ring.take();
        if slots.len() == 1 {
            return;
        }
        for kept in 1..slots.len() {
            let short = [&slots[..kept], &destroy].concat();
            lines.push(clip(&format!(
                "{name}, {kept} slots: {}",
                ring.take_raw(&short).1
            )));
        }
        let more = [&slots[..], &slots[1..2], &destroy].concat();
        lines.push(clip(&format!(
            "{name}, one more: {}",
            ring.take_raw(&more).1
        )));
    });
    compare("missing_slots", &lines);
}

/// What is posted and never taken is passed over, without its keys.
#[test]
#[cfg_attr(miri, ignore = "it reads a file")]
fn what_is_skipped_is_as_written_down() {
    let mut lines = Vec::new();
    samples::each(|name, descriptor| {
        let mut ring = Ring::new();
        ring.post(descriptor);
        ring.device.queues[0].send.skip();
        ring.device.queues[0].send.publish();
        let send = &mut ring.host.queues[0].send;
        let (posted, completed, free) = (send.posted(), send.completed(), send.free(8));
        let left = ring.block.words().iter();
        let left: Vec<u8> = left
            .flat_map(|word| word.load(Ordering::Relaxed).to_le_bytes())
            .collect();
        let sum = sum(&left);
        lines.push(format!("{name}: {posted} {completed} {free} {sum:016x}"));
    });
    compare("skipped", &lines);
}

/// A field in a word.
fn field(field: &layout::Field) -> String {
    let kind = match field.kind {
        layout::Kind::Number(bytes) => bytes.to_string(),
        layout::Kind::Struct(inner) => inner.name.to_owned(),
    };
    let count = field
        .count
        .map_or(String::new(), |count| format!("x{count}"));
    let reserved = if field.is_reserved() { "!" } else { "" };
    let layout::Field {
        name, offset, size, ..
    } = field;
    format!("{name}{reserved}@{offset}+{size}={kind}{count}")
}

/// The tables of the layout, from which headers and pages are written.
#[test]
#[cfg_attr(miri, ignore = "it reads a file")]
fn layouts_are_as_written_down() {
    let mut lines = Vec::new();
    for layout in layouts().into_iter().flatten() {
        let layout::Layout {
            name, opcode, size, ..
        } = layout;
        let fields: Vec<String> = layout.fields.iter().map(field).collect();
        let (flags, fields) = (layout.flags, fields.join(" "));
        lines.push(clip(&format!("{name} {opcode} {size} {fields} {flags:?}")));
    }
    for form in layout::Form::all() {
        let mut slot = [u64::MAX; SLOT_WORDS];
        slot.as_mut_bytes()[0] = form.layout.opcode;
        clear_reserved(&mut slot);
        let (name, slices, slot) = (form.layout.name, form.slices, words(slot));
        lines.push(clip(&format!("{name} {} {slices:?} {slot}", form.words())));
    }
    for (group, names) in constants() {
        lines.push(clip(&format!("{group} {names:?}")));
    }
    compare("layouts", &lines);
}
