//! Having a function fail on purpose.

use std::path::Path;

use nic::Nic;

use super::hosts::Host;
use super::rings_hosts::RingsHosts;
use crate::control::Request;

/// Does what the request says, of a NIC that was started for this.
///
/// # Errors
/// Why not, for the user.
pub fn inject(
    request: &[u8],
    are_allowed: bool,
    hosts: &[Host],
    rings: &RingsHosts,
    nic: &mut Nic,
) -> Result<(), String> {
    let Ok(Request::Fault { host, fault }) = serde_json::from_slice(request) else {
        return Err("that is no fault".to_owned());
    };
    if !are_allowed {
        return Err("this NIC fails on purpose only if it is started with --faults".to_owned());
    }
    let tap = hosts.iter().find(|its| its.tap().name() == host);
    let function = tap.map(Host::id);
    let function = function.or_else(|| rings.function_at(Path::new(&host)));
    let is_done = function.is_some_and(|function| nic.inject(function, fault.into()));
    is_done.then_some(()).ok_or_else(|| {
        format!("no host is at {host}; give --host the socket or interface of one that is there")
    })
}
