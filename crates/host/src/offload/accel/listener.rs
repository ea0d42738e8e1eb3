//! Listeners that the NIC answers for: one rule for each local address and port, and the credits of their backlogs.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use nic::ring::accel::{InstallListener, ListenRuleId, ListenerOptions};
use nic::ring::{ErrorCode, SendDescriptor};

use super::ConnectionOffload;
use super::teardown::STALL;
use crate::ListenerId;
use crate::counters::Counters;
use crate::device::Device;
use crate::driver::HOP_LIMIT;
use crate::transport::Transport;

/// Every rule, by its number on the NIC.
#[derive(Debug, Default)]
pub(crate) struct Rules {
    rules: Vec<Rule>,
    /// Something is to be posted.
    dirty: bool,
}

/// SYNs to one address and port.
#[derive(Debug)]
struct Rule {
    listener: ListenerId,
    address: (IpAddr, u16),
    options: ListenerOptions,
    state: State,
    /// Credits to be returned.
    owed: u32,
    /// They are to be returned though they are few.
    is_urgent: bool,
    /// Times that the NIC has refused it.
    refusals: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The number is not in use.
    Free,
    /// To be posted.
    Wanted,
    /// Posted, by the descriptor of this index: the NIC answers, unless it refuses.
    Installed(u64),
    /// Refused; to be tried again then.
    Refused(Instant),
    /// Refused for good.
    Impossible,
    /// To be removed.
    Unwanted,
}

/// Credits are returned when this part of the backlog has come together.
const BATCHES: u32 = 8;
/// When to ask again a NIC that has refused; twice as long after each refusal.
const RETRY: Duration = Duration::from_secs(1);
const MAX_DOUBLINGS: u8 = 6;

impl Rules {
    /// The listener of a rule, if it has the address that a packet was sent to.
    pub fn listener(&self, rule: ListenRuleId, local: (IpAddr, u16)) -> Option<ListenerId> {
        let rule = self.rules.get(usize::from(rule.0))?;
        (rule.address == local && rule.state != State::Free).then_some(rule.listener)
    }

    /// A connection that the NIC has handed up by this rule waits no longer at the listener; with `None` it never has.
    #[inline]
    pub fn give_back(&mut self, rule: ListenRuleId, listener: Option<ListenerId>) {
        if let Some(rule) = self.rules.get_mut(usize::from(rule.0))
            && matches!(rule.state, State::Installed(_))
            && listener.is_none_or(|listener| rule.listener == listener)
        {
            rule.owed += 1;
            self.dirty |= rule.owed >= batch(rule.options.backlog);
        }
    }

    /// The NIC has handed up once more what it had before, for one more credit. It has that back at the next poll: it is not for a
    /// client to say how many others there is room for.
    pub fn give_back_repeated(&mut self, rule: ListenRuleId) {
        self.give_back(rule, None);
        if let Some(rule) = self.rules.get_mut(usize::from(rule.0))
            && rule.owed > 0
        {
            rule.is_urgent = true;
            self.dirty = true;
        }
    }

    /// The NIC has forgotten them all: they are wanted anew.
    pub fn forgotten(&mut self, counters: &mut Counters) {
        for rule in &mut self.rules {
            let forgotten = match rule.state {
                State::Installed(_) => Some(State::Wanted),
                State::Unwanted => Some(State::Free),
                _ => None,
            };
            if let Some(state) = forgotten {
                rule.state = state;
                counters.accel_curr_listeners -= 1;
            }
            rule.owed = 0;
        }
        self.dirty = true;
    }

    /// Whether the NIC answers for a listener at any of its addresses.
    pub fn answers_for(&self, listener: ListenerId) -> bool {
        let mut of_it = self.rules.iter().filter(|rule| rule.listener == listener);
        of_it.any(|rule| matches!(rule.state, State::Installed(_)))
    }

    pub fn poll_timeout(&self, last_poll: Instant) -> Option<Instant> {
        let retries = self.rules.iter().filter_map(|rule| match rule.state {
            State::Refused(until) => Some(until),
            _ => None,
        });
        retries.chain(self.dirty.then_some(last_poll + STALL)).min()
    }

    /// Asks again for the refused rules whose time has come, by the lowest numbers that are free: the NIC may take low ones only.
    fn retry(&mut self, now: Instant) {
        for at in 0..self.rules.len() {
            if !matches!(self.rules[at].state, State::Refused(until) if until <= now) {
                continue;
            }
            self.rules[at].state = State::Wanted;
            self.dirty = true;
            let free = self.rules.iter().position(|it| it.state == State::Free);
            if let Some(free) = free.filter(|free| *free < at) {
                self.rules.swap(at, free);
            }
        }
    }

    /// The NIC has room for another rule.
    fn room_came(&mut self, now: Instant) {
        for rule in &mut self.rules {
            if matches!(rule.state, State::Refused(_)) {
                rule.state = State::Refused(now);
            }
        }
        self.retry(now);
    }

    /// Makes the rules those that are wanted.
    fn want(&mut self, wanted: &[(ListenerId, (IpAddr, u16), ListenerOptions)]) {
        for rule in &mut self.rules {
            let is_wanted = wanted
                .iter()
                .any(|(id, address, _)| *id == rule.listener && *address == rule.address);
            if is_wanted {
                continue;
            }
            rule.state = match rule.state {
                State::Installed(_) | State::Unwanted => State::Unwanted,
                _ => State::Free,
            };
            self.dirty |= rule.state == State::Unwanted;
        }
        for &(listener, address, options) in wanted {
            let is_there = |rule: &Rule| {
                rule.listener == listener
                    && rule.address == address
                    && !matches!(rule.state, State::Free | State::Unwanted)
            };
            if self.rules.iter().any(is_there) {
                continue;
            }
            let rule = Rule {
                listener,
                address,
                options,
                state: State::Wanted,
                owed: 0,
                is_urgent: false,
                refusals: 0,
            };
            self.dirty = true;
            let free = self.rules.iter().position(|it| it.state == State::Free);
            match free {
                Some(at) => self.rules[at] = rule,
                None if self.rules.len() < usize::from(u16::MAX) => self.rules.push(rule),
                None => {}
            }
        }
    }

    /// Posts what is to be posted. Answers whether that was anything.
    pub fn post(&mut self, now: Instant, device: &mut Device) -> bool {
        self.retry(now);
        if !self.dirty {
            return false;
        }
        // Those that go make room for those that come.
        let done = self.post_removals(now, device) && self.post_installs(device);
        self.dirty = !done;
        done
    }

    fn post_removals(&mut self, now: Instant, device: &mut Device) -> bool {
        let mut removed = false;
        for (number, rule) in self.rules.iter_mut().enumerate() {
            if rule.state != State::Unwanted {
                continue;
            }
            let descriptor = SendDescriptor::RemoveListener {
                rule: ListenRuleId(number as u16),
            };
            if device.post_now(&descriptor).is_none() {
                return false;
            }
            rule.state = State::Free;
            device.counters.accel_curr_listeners -= 1;
            removed = true;
        }
        if removed {
            self.room_came(now);
        }
        true
    }

    fn post_installs(&mut self, device: &mut Device) -> bool {
        for (number, rule) in self.rules.iter_mut().enumerate() {
            let id = ListenRuleId(number as u16);
            if rule.state == State::Wanted {
                let install = InstallListener {
                    rule: id,
                    address: rule.address.0,
                    port: rule.address.1,
                    options: rule.options,
                };
                let descriptor = SendDescriptor::InstallListener(&install);
                let Some(posted) = device.post_now(&descriptor) else {
                    return false;
                };
                rule.state = State::Installed(posted.first);
                (rule.owed, rule.is_urgent) = (0, false);
                device.counters.accel_curr_listeners += 1;
            }
            let is_due = rule.is_urgent || rule.owed >= batch(rule.options.backlog);
            if matches!(rule.state, State::Installed(_)) && is_due {
                let descriptor = SendDescriptor::ListenerCredit {
                    rule: id,
                    credits: rule.owed,
                };
                if device.post_now(&descriptor).is_none() {
                    return false;
                }
                (rule.owed, rule.is_urgent) = (0, false);
            }
        }
        true
    }

    /// The NIC has refused the descriptor of this index. Answers whether it was a rule's: the host then answers for it.
    pub fn refused(
        &mut self,
        now: Instant,
        index: u64,
        error: ErrorCode,
        counters: &mut Counters,
    ) -> bool {
        let mut rules = self.rules.iter_mut();
        let Some(rule) = rules.find(|rule| rule.state == State::Installed(index)) else {
            return false;
        };
        let wait = RETRY * (1 << rule.refusals.min(MAX_DOUBLINGS));
        rule.refusals = rule.refusals.saturating_add(1);
        rule.state = match error {
            ErrorCode::TableFull | ErrorCode::ListenerExists => State::Refused(now + wait),
            _ => State::Impossible,
        };
        counters.accel_curr_listeners -= 1;
        counters.accel_listeners_refused += 1;
        true
    }
}

fn batch(backlog: u32) -> u32 {
    (backlog / BATCHES).max(1)
}

/// What the rules are to be, by the listeners and the local addresses.
fn wanted(transport: &Transport) -> Vec<(ListenerId, (IpAddr, u16), ListenerOptions)> {
    let mut wanted = Vec::new();
    for (id, listening) in transport.listeners.iter().filter(|(_, it)| it.accel) {
        let port = listening.address.port();
        for address in transport.link.interface.addresses() {
            if transport.listeners.find((address, port)) == Some(id) {
                let config = listening.tcp.connection();
                let backlog = u32::try_from(listening.backlog).unwrap_or(u32::MAX);
                let options = ListenerOptions {
                    mss: config.mss,
                    window: config.syn_window(),
                    window_scale: config.window_shift(),
                    sack: config.sack,
                    backlog: backlog.min(i32::MAX as u32),
                    defer: listening.defer,
                    hop_limit: HOP_LIMIT,
                };
                wanted.push((id, (address, port), options));
            }
        }
    }
    wanted
}

impl ConnectionOffload {
    /// Brings the rules in line with the listeners and the local addresses.
    pub fn sync_rules(&mut self) {
        let config = &self.transport.config;
        if config.accel.setup && config.tcp.timestamps {
            self.accel.rules.want(&wanted(&self.transport));
        }
    }
}
