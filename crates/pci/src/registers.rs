//! The registers of BAR 0: what they hold, and what is to be done about a write.

use nic::Features;
use nic::ring::FunctionConfig;
use wire::ethernet::MacAddr;

use crate::config_space::REGISTERS_BYTES;

const MAGIC: u32 = u32::from_be_bytes(*b"lnsr");

/// Where registers are.
const MAGIC_AND_VERSION: u64 = 0x000;
const CONTROL: u64 = 0x008;
const CONTROL_AND_STATUS: u64 = CONTROL;
const MAC: u64 = 0x010;
const MTU_AND_EVENTS: u64 = 0x018;
const EVENTS: u64 = 0x01c;
const FEATURES: u64 = 0x020;
const SIZES: u64 = 0x040;
const IDENTITY: u64 = 0x100;
const RINGS: u64 = 0x200;
const RINGS_END: u64 = 0x400;
const DOORBELLS: u64 = 0x1000;
const DOORBELLS_END: u64 = 0x1400;

/// Names, offsets and bytes, as the page on the device has them.
#[cfg(test)]
pub(crate) const PLACES: [(&str, u64, u64); 12] = [
    ("MAGIC", MAGIC_AND_VERSION, 4),
    ("VERSION", MAGIC_AND_VERSION + 4, 4),
    ("CONTROL", CONTROL, 4),
    ("STATUS", CONTROL_AND_STATUS + 4, 4),
    ("MAC", MAC, 8),
    ("MTU", MTU_AND_EVENTS, 4),
    ("EVENTS", EVENTS, 4),
    ("FEATURES", FEATURES, 8),
    ("SIZES", SIZES, 8 * MOST_SIZES as u64),
    ("IDENTITY", IDENTITY, RINGS - IDENTITY),
    ("RINGS", RINGS, RINGS_END - RINGS),
    ("DOORBELLS", DOORBELLS, DOORBELLS_END - DOORBELLS),
];

/// Bits of CONTROL.
const ENABLE: u32 = 1;
const RESET: u32 = 2;
/// Bits of STATUS.
const READY: u32 = 1;
const LINK: u32 = 2;
const FAILED: u32 = 4;
const REFUSAL_SHIFT: u32 = 8;
/// Bits of EVENTS.
const EVENT_LINK: u32 = 1;
const EVENT_FAILED: u32 = 2;

/// Sizes and quotas, as words 2 to 15 of a `SetUp`.
const MOST_SIZES: usize = 14;
/// The words of the identity that are sets: features and protocols.
const SET_WORDS: [usize; 2] = [1, 2];
/// The word of the identity that tells how many queues there can be.
const QUEUES_WORD: usize = 4;
/// Most queues that have registers.
pub(crate) const MOST_QUEUES: u16 = ((RINGS_END - RINGS) / 8) as u16;

/// What is to be done about a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Attach the function, with [what was written](Registers::wanted).
    Enable,
    /// Detach it.
    Disable,
    /// Detach it; the registers have their initial values.
    Reset,
    /// Have the NIC look at the rings.
    Ring,
}

/// What the NIC has said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Given {
    /// What it offers, as words.
    pub identity: Vec<u64>,
    /// The function's address.
    pub mac: MacAddr,
    /// The largest IP packet on the wire.
    pub mtu: u16,
}

/// The registers.
#[derive(Debug, Clone)]
pub struct Registers {
    given: Given,
    state: State,
    has_link: bool,
}

/// What a reset resets.
#[derive(Debug, Clone)]
struct State {
    features: u64,
    sizes: [u64; MOST_SIZES],
    /// By queue.
    rings: Vec<u64>,
    is_ready: bool,
    has_failed: bool,
    /// Why the last one was refused.
    refusal: u8,
    events: u32,
}

impl State {
    fn new(queues: u16) -> State {
        State {
            features: 0,
            sizes: sizes_of(&FunctionConfig::new(MacAddr::ZERO)),
            rings: vec![0; usize::from(queues)],
            is_ready: false,
            has_failed: false,
            refusal: 0,
            events: 0,
        }
    }
}

impl Registers {
    /// As after a reset.
    pub fn new(given: Given) -> Registers {
        let state = State::new(queues_of(&given));
        Registers {
            given,
            state,
            has_link: true,
        }
    }

    /// Most queues of the function.
    pub fn queues(&self) -> u16 {
        queues_of(&self.given)
    }

    /// Reads from `offset` on. What no register has is zero, beyond the end ones.
    pub fn read(&self, offset: u64, to: &mut [u8]) {
        for (at, byte) in (offset..).zip(to) {
            *byte = match at < u64::from(REGISTERS_BYTES) {
                true => self.word(at & !7).to_le_bytes()[(at & 7) as usize],
                false => 0xff,
            };
        }
    }

    /// Writes 4 or 8 bytes that are aligned; others are not looked at. Gives what is to be done.
    #[must_use]
    pub fn write(&mut self, offset: u64, from: &[u8]) -> Option<Action> {
        if !matches!(from.len(), 4 | 8) || !offset.is_multiple_of(from.len() as u64) {
            return None;
        }
        let mut action = None;
        for (at, half) in (offset..).step_by(4).zip(from.as_chunks::<4>().0) {
            action = self.write_half(at, u32::from_le_bytes(*half)).or(action);
        }
        action
    }

    /// Eight bytes at an offset that is a multiple of eight.
    fn word(&self, at: u64) -> u64 {
        let both = |low: u32, high: u32| u64::from(high) << 32 | u64::from(low);
        let indexed = |from: u64, words: &[u64]| {
            let index = usize::try_from((at - from) / 8).ok();
            index.and_then(|at| words.get(at)).map_or(0, |word| *word)
        };
        let state = &self.state;
        match at {
            MAGIC_AND_VERSION => both(MAGIC, rings::VERSION),
            CONTROL_AND_STATUS => both(if state.is_ready { ENABLE } else { 0 }, self.status()),
            MAC => number(self.given.mac),
            MTU_AND_EVENTS => both(self.given.mtu.into(), state.events),
            FEATURES => state.features,
            SIZES..IDENTITY => indexed(SIZES, &state.sizes),
            IDENTITY..RINGS => indexed(IDENTITY, &self.given.identity),
            RINGS..RINGS_END => indexed(RINGS, &state.rings),
            _ => 0,
        }
    }

    fn status(&self) -> u32 {
        let state = &self.state;
        let bits = [
            (state.is_ready, READY),
            (self.has_link, LINK),
            (state.has_failed, FAILED),
        ];
        let set = bits.iter().filter(|(is_set, _)| *is_set);
        let refusal = u32::from(state.refusal) << REFUSAL_SHIFT;
        set.fold(refusal, |status, (_, bit)| status | bit)
    }

    fn write_half(&mut self, at: u64, value: u32) -> Option<Action> {
        match at {
            CONTROL => self.control(value),
            EVENTS => {
                self.state.events &= !value;
                None
            }
            DOORBELLS..DOORBELLS_END => {
                let queue = (at - DOORBELLS) / 4;
                let is_there = self.state.is_ready && queue < u64::from(self.queues());
                is_there.then_some(Action::Ring)
            }
            _ => {
                if let Some(word) = self.setting(at & !7) {
                    let shift = (at & 4) * 8;
                    let kept = *word & !(u64::from(u32::MAX) << shift);
                    *word = kept | u64::from(value) << shift;
                }
                None
            }
        }
    }

    fn control(&mut self, value: u32) -> Option<Action> {
        let enable = value & ENABLE != 0;
        if value & RESET != 0 {
            self.reset();
            return Some(Action::Reset);
        }
        match (self.state.is_ready, enable) {
            (false, true) => Some(Action::Enable),
            (true, false) => Some(Action::Disable),
            _ => None,
        }
    }

    /// What can be written while there is no function.
    fn setting(&mut self, at: u64) -> Option<&mut u64> {
        let state = &mut self.state;
        if state.is_ready {
            return None;
        }
        let index = |from: u64| usize::try_from((at - from) / 8).ok();
        match at {
            FEATURES => Some(&mut state.features),
            SIZES..IDENTITY => state.sizes.get_mut(index(SIZES)?),
            RINGS..RINGS_END => state.rings.get_mut(index(RINGS)?),
            _ => None,
        }
    }

    /// The function that is asked for, with an address of rings for each queue. `None` when a number is too large for what it says, or there are not so
    /// many queues.
    pub fn wanted(&self) -> Option<(FunctionConfig, &[u64])> {
        let config = FunctionConfig {
            mac: self.given.mac,
            features: Features::from_bits(self.state.features),
            ..config_of(&self.state.sizes)?
        };
        let rings = self.state.rings.get(..usize::from(config.queues))?;
        config.check().is_ok().then_some((config, rings))
    }

    /// Whether rings of the function that is there are in memory of these addresses.
    pub fn has_rings_in(&self, address: u64, len: u64) -> bool {
        let Some((config, rings)) = self.wanted().filter(|_| self.state.is_ready) else {
            return false;
        };
        let one = FunctionConfig {
            queues: 1,
            ..config
        };
        let bytes = one.block_bytes() as u64;
        let end = address.saturating_add(len);
        let is_in = |start: &u64| *start < end && start.saturating_add(bytes) > address;
        rings.iter().any(is_in)
    }

    /// The function is there.
    pub fn enabled(&mut self) {
        self.state.is_ready = true;
        self.state.has_failed = false;
        self.state.refusal = 0;
    }

    /// It was refused, for this reason.
    pub fn refused(&mut self, code: u8) {
        self.state.refusal = code;
    }

    /// The function was detached, as asked for.
    pub fn disabled(&mut self) {
        self.state.is_ready = false;
    }

    /// The function that was there has gone by itself. True if there was one: then there is an event.
    pub fn failed(&mut self) -> bool {
        let was_ready = std::mem::take(&mut self.state.is_ready);
        if was_ready {
            self.state.has_failed = true;
            self.state.events |= EVENT_FAILED;
        }
        was_ready
    }

    /// Whether the NIC offers what the driver was told of, still or again. Features and protocols may be more, as a later version's: the driver goes on
    /// to see those that it was told of.
    pub fn offer(&self, given: &Given) -> bool {
        let mut seen = given.clone();
        for word in SET_WORDS {
            let told = self.given.identity.get(word);
            if let (Some(told), Some(there)) = (told, seen.identity.get_mut(word)) {
                *there &= told;
            }
        }
        self.given == seen
    }

    /// There is a NIC, or it has gone. True if that is new: then there is an event.
    pub fn set_link(&mut self, has_link: bool) -> bool {
        let is_new = std::mem::replace(&mut self.has_link, has_link) != has_link;
        if is_new {
            self.state.events |= EVENT_LINK;
        }
        is_new
    }

    /// All that was written has its initial values.
    pub fn reset(&mut self) {
        self.state = State::new(queues_of(&self.given));
    }
}

fn queues_of(given: &Given) -> u16 {
    let queues = given.identity.get(QUEUES_WORD).copied().unwrap_or(1);
    u16::try_from(queues).unwrap_or(u16::MAX).min(MOST_QUEUES)
}

fn number(mac: MacAddr) -> u64 {
    let [a, b, c, d, e, f] = mac.0;
    u64::from_be_bytes([0, 0, a, b, c, d, e, f])
}

fn sizes_of(config: &FunctionConfig) -> [u64; MOST_SIZES] {
    [
        config.queues.into(),
        config.send_entries.into(),
        config.command_entries.into(),
        config.receive_entries.into(),
        config.small_entries.into(),
        config.large_entries.into(),
        config.small_bytes.into(),
        config.large_bytes.into(),
        config.contexts.into(),
        config.tags.into(),
        config.closing.into(),
        config.packet_memory,
        config.splices.into(),
        config.toe_connections.into(),
    ]
}

fn config_of(sizes: &[u64; MOST_SIZES]) -> Option<FunctionConfig> {
    let number = |at: usize| u32::try_from(sizes[at]).ok();
    Some(FunctionConfig {
        mac: MacAddr::ZERO,
        features: Features::NONE,
        queues: u16::try_from(sizes[0]).ok()?,
        send_entries: number(1)?,
        command_entries: number(2)?,
        receive_entries: number(3)?,
        small_entries: number(4)?,
        large_entries: number(5)?,
        small_bytes: number(6)?,
        large_bytes: number(7)?,
        contexts: number(8)?,
        tags: number(9)?,
        closing: number(10)?,
        packet_memory: sizes[11],
        splices: number(12)?,
        toe_connections: number(13)?,
    })
}
