//! Having a function fail on purpose.

use std::path::Path;

use nic::{Fault, Nic};

use super::hosts::Host;
use super::rings_hosts::RingsHosts;
use crate::control::Request;

/// Does what the request says, of a NIC that was started for this; `inject` says whether the host is there.
///
/// # Errors
/// Why not, for the user.
pub fn inject(
    request: &[u8],
    are_allowed: bool,
    inject: impl FnOnce(&str, Fault) -> bool,
) -> Result<(), String> {
    let Ok(Request::Fault { host, fault }) = serde_json::from_slice(request) else {
        return Err("that is no fault".to_owned());
    };
    if !are_allowed {
        return Err("this NIC fails on purpose only if it is started with --faults".to_owned());
    }
    inject(&host, fault.into()).then_some(()).ok_or_else(|| {
        format!("no host is at {host}; give --host the socket or interface of one that is there")
    })
}

/// Has the function of a host of this NIC fail. Whether it is there.
pub fn inject_here(
    host: &str,
    fault: Fault,
    hosts: &[Host],
    rings: &RingsHosts,
    nic: &mut Nic,
) -> bool {
    let tap = hosts.iter().find(|its| its.tap().name() == host);
    let function = tap.map(Host::id);
    let function = function.or_else(|| rings.function_at(Path::new(host)));
    function.is_some_and(|function| nic.inject(function, fault))
}
