//! What a process receives of its queues while another one has its place, or is to have it.

use std::collections::HashSet;
use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use port::Share;
use rustix::fs::fstat;
use rustix::io::ioctl_fionbio;
use rustix::net::{SocketType, sockopt};

use super::{All, Drains};
use crate::attach::Attached;

/// Longest time until what the NIC has received of a queue that is read no more has come to its stack.
const SETTLE: Duration = Duration::from_millis(500);

/// The open queues of these stacks.
pub(super) fn queues<S: Drains>(all: &mut All<'_, S>) -> Result<Vec<OwnedFd>> {
    all.try_with_each(|_, attached| {
        let queue = attached
            .runtime
            .with_device(|device| device.port.queue().map(|it| it.try_clone_to_owned()))?;
        Ok(queue.context("it has no TAP interface of its own")??)
    })
}

/// The queue is this process's alone, and so are all ports.
pub(super) fn have_whole(attached: &mut Attached) {
    attached.runtime.stack().set_outgoing_ports(None);
    if let Err(error) = share(attached, Share::Whole) {
        tracing::error!("a queue is not read: {error:#}");
    }
}

pub(super) fn share(attached: &mut Attached, share: Share) -> Result<()> {
    let shared = attached
        .runtime
        .with_device(|device| device.port.share(share))?;
    Ok(shared?)
}

/// Brings all that the NIC has received to the stack.
///
/// # Errors
/// It is still coming after [`SETTLE`].
pub(super) fn settle(attached: &mut Attached) -> Result<()> {
    let until = Instant::now() + SETTLE;
    let mut before = None;
    loop {
        let now = Instant::now();
        let frames = attached.runtime.with_device(move |device| {
            device.poll(now)?;
            io::Result::Ok(device.nic.counters().rx_packets)
        })??;
        attached.runtime.poll(now)?;
        let received = (frames, attached.runtime.stack().taken_in());
        if before.replace(received) == Some(received) {
            return Ok(());
        }
        ensure!(
            now < until,
            "what was received has not come to the stack within {} ms",
            SETTLE.as_millis()
        );
    }
}

/// The ways to so many workers, if they are what the other process has promised: a socket for each, of whole packets. Reading from it never waits.
pub(super) fn checked_ways(sockets: Vec<OwnedFd>, workers: usize) -> Result<Vec<OwnedFd>> {
    let count = sockets.len();
    ensure!(
        count == workers,
        "{count} sockets came for {workers} queues"
    );
    let mut known = HashSet::new();
    for socket in &sockets {
        let kind = sockopt::socket_type(socket).context("no socket came for a queue")?;
        ensure!(
            kind == SocketType::SEQPACKET,
            "a socket came that does not carry whole packets"
        );
        let stat = fstat(socket)?;
        ensure!(
            known.insert((stat.st_dev, stat.st_ino)),
            "one socket came for two queues"
        );
        ioctl_fionbio(socket, true)?;
    }
    Ok(sockets)
}

/// Receives what the other process passes on to this worker.
pub(super) fn share_passed(attached: &mut Attached, sockets: &[OwnedFd]) -> Result<()> {
    let nth = attached.runtime.stack().worker();
    let socket = sockets.get(nth).context("it gives too few sockets")?;
    share(attached, Share::Passed(socket.try_clone()?))
}

/// The same, for a thread that does so later than it was asked.
pub(super) fn hear_passed(attached: &mut Attached, sockets: &[OwnedFd]) {
    if let Err(error) = share_passed(attached, sockets) {
        tracing::error!("what is passed on is not read: {error:#}");
    }
}

/// Whether no connection is left but those in TIME-WAIT that the host answers for. If so, nothing is heard any more: no new one begins.
pub(super) fn is_over(now: Instant, attached: &mut Attached, sockets: &[OwnedFd]) -> Result<bool> {
    if attached.runtime.stack().socket_count() > 0 || !has_idle_nic(attached)? {
        return Ok(false);
    }
    share(attached, Share::Nothing)?;
    let is_over = is_over_unheard(now, attached);
    if !matches!(is_over, Ok(true)) {
        share_passed(attached, sockets)?;
    }
    is_over
}

fn is_over_unheard(now: Instant, attached: &mut Attached) -> Result<bool> {
    settle(attached)?;
    attached.runtime.poll(now)?;
    Ok(attached.runtime.stack().socket_count() == 0 && has_idle_nic(attached)?)
}

/// Whether the NIC has no connection, in teardown or TIME-WAIT.
fn has_idle_nic(attached: &mut Attached) -> Result<bool> {
    let closing = attached
        .runtime
        .with_device(|device| device.nic.counters().accel_curr_closing)?;
    Ok(closing == 0 && attached.runtime.has_finished_teardowns()?)
}
