//! The listening rules of all functions: which SYNs and cookies are whose.

use std::net::IpAddr;

use crate::ring::ErrorCode;
use crate::ring::accel::{InstallListener, ListenRuleId, ListenerOptions};
use crate::switch::FunctionId;

/// All rules, sorted by function, port and address. A lookup is a binary search for the port, and a look at the addresses that
/// its host has on it: peers choose ports, but no entries.
#[derive(Debug)]
pub(super) struct Listeners {
    rules: Vec<Rule>,
    /// Rules that a function may have.
    limit: u16,
}

/// One rule.
#[derive(Debug)]
pub(super) struct Rule {
    function: FunctionId,
    pub(super) id: ListenRuleId,
    port: u16,
    address: IpAddr,
    pub(super) options: ListenerOptions,
    /// Connections that may still be handed up before SYNs are dropped. Cookies that are about may take it below 0.
    pub(super) credits: i64,
}

type Key = (FunctionId, u16, IpAddr);

impl Rule {
    fn key(&self) -> Key {
        (self.function, self.port, self.address)
    }
}

impl Listeners {
    pub(super) fn new(limit: u16) -> Listeners {
        Listeners {
            rules: Vec::new(),
            limit,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Adds a rule of a function.
    ///
    /// # Errors
    /// When its number or its address is in use, or the number is not below the limit.
    pub(super) fn install(
        &mut self,
        function: FunctionId,
        install: &InstallListener,
    ) -> Result<(), ErrorCode> {
        if install.rule.0 >= self.limit {
            return Err(ErrorCode::TableFull);
        }
        let key = (function, install.port, install.address);
        let place = match self.rules.binary_search_by_key(&key, Rule::key) {
            Err(place) if self.place_of(function, install.rule).is_none() => place,
            _ => return Err(ErrorCode::ListenerExists),
        };
        let rule = Rule {
            function,
            id: install.rule,
            port: install.port,
            address: install.address,
            options: install.options,
            credits: install.options.backlog.into(),
        };
        self.rules.insert(place, rule);
        Ok(())
    }

    /// Removes a function's rule.
    ///
    /// # Errors
    /// When no rule has this number.
    pub(super) fn remove(
        &mut self,
        function: FunctionId,
        id: ListenRuleId,
    ) -> Result<(), ErrorCode> {
        let place = self.place_of(function, id).ok_or(ErrorCode::NoListener)?;
        self.rules.remove(place);
        Ok(())
    }

    /// Removes all rules of a function.
    pub(super) fn remove_all(&mut self, function: FunctionId) {
        self.rules.retain(|rule| rule.function != function);
    }

    /// Gives credits back. A host that gives more than it had has all of its backlog again.
    ///
    /// # Errors
    /// When there is no rule of this number.
    pub(super) fn credit(
        &mut self,
        function: FunctionId,
        id: ListenRuleId,
        credits: u32,
    ) -> Result<(), ErrorCode> {
        let place = self.place_of(function, id).ok_or(ErrorCode::NoListener)?;
        let rule = &mut self.rules[place];
        let most = i64::from(rule.options.backlog);
        rule.credits = (rule.credits + i64::from(credits)).min(most);
        Ok(())
    }

    /// The rule for what comes to this address and port of a function: that of the address before that of all addresses.
    pub(super) fn find(
        &mut self,
        function: FunctionId,
        address: IpAddr,
        port: u16,
    ) -> Option<&mut Rule> {
        let wanted = place(function, port);
        let first = self
            .rules
            .partition_point(|rule| place(rule.function, rule.port) < wanted);
        let (mut all, mut at) = (None, first);
        while let Some(rule) = self.rules.get(at)
            && place(rule.function, rule.port) == wanted
        {
            if rule.address == address {
                return self.rules.get_mut(at);
            }
            if rule.address.is_unspecified() && rule.address.is_ipv4() == address.is_ipv4() {
                all = Some(at);
            }
            at += 1;
        }
        self.rules.get_mut(all?)
    }

    /// For commands, which are few.
    fn place_of(&self, function: FunctionId, id: ListenRuleId) -> Option<usize> {
        let first = self.rules.partition_point(|rule| rule.function < function);
        let its = self.rules[first..]
            .iter()
            .take_while(|rule| rule.function == function);
        its.map(|rule| rule.id)
            .position(|rule| rule == id)
            .map(|at| first + at)
    }
}

/// A port of a function, in the order of the rules.
fn place(function: FunctionId, port: u16) -> u32 {
    u32::from(function.0) << 16 | u32::from(port)
}

#[cfg(test)]
mod tests;
