//! How fast the link in memory is: `cargo run --release -p longshore-port --example link_speed`.
//!
//! `-- --short` sends a thousandth of the frames.

use std::io;
use std::thread;
use std::time::Instant;

use port::impair::{Impair, Impairment, Impairments};
use port::memory::{End, LinkConfig, link};
use port::{Meta, Port};

const BYTES: usize = 8 << 30;

fn main() -> io::Result<()> {
    for len in [64, 1514, 9014, 65_549] {
        let (left, right) = link(LinkConfig::for_mtu(9000));
        report("one thread", len, one_thread(left, right, len)?);
        let (left, right) = link(LinkConfig::for_mtu(9000));
        report("two threads", len, two_threads(left, right, len)?);
    }
    let loss = Impairment {
        loss: 0.005,
        reorder: 0.005,
        ..Impairment::default()
    };
    let (left, right) = link(LinkConfig::for_mtu(9000));
    let left = Impair::new(left, Impairments::on_transmit(loss), 1);
    report(
        "one thread, with loss and reordering",
        1514,
        one_thread(left, right, 1514)?,
    );
    Ok(())
}

/// Seconds per frame.
fn one_thread(mut left: impl Port, mut right: End, len: usize) -> io::Result<f64> {
    let frames = frames(len);
    let start = Instant::now();
    let mut left_to_send = frames;
    while left_to_send > 0 {
        let mut batch = left_to_send.min(64);
        left.transmit(start, &mut |buffer| {
            batch = batch.checked_sub(1)?;
            left_to_send -= 1;
            write(buffer, len)
        })?;
        right.receive(start, &mut read)?;
    }
    Ok(start.elapsed().as_secs_f64() / frames as f64)
}

/// Seconds per frame.
fn two_threads(mut left: End, mut right: End, len: usize) -> io::Result<f64> {
    let frames = frames(len);
    let start = Instant::now();
    let sender = thread::spawn(move || -> io::Result<()> {
        let mut left_to_send = frames;
        while left_to_send > 0 {
            let sent = left.transmit(start, &mut |buffer| {
                left_to_send = left_to_send.checked_sub(1)?;
                write(buffer, len)
            })?;
            yield_if_idle(sent);
        }
        Ok(())
    });
    let mut received = 0;
    while received < frames {
        let came = right.receive(start, &mut read)?;
        yield_if_idle(came);
        received += came;
    }
    sender.join().expect("the sender does not panic")?;
    Ok(start.elapsed().as_secs_f64() / frames as f64)
}

/// Spinning would take the other thread's time where cores are scarce.
fn yield_if_idle(moved: usize) {
    if moved == 0 {
        thread::yield_now();
    }
}

/// Writes a whole frame, as a NIC would.
fn write(buffer: &mut [u8], len: usize) -> Option<(usize, Meta)> {
    buffer[..len].fill(0x5a);
    Some((len, Meta::default()))
}

/// Reads a byte of each cache line.
fn read(frame: &[u8], _: Meta) {
    std::hint::black_box(frame.iter().step_by(64).fold(0, |sum, &byte| sum ^ byte));
}

fn frames(len: usize) -> usize {
    let short = std::env::args().any(|argument| argument == "--short");
    let share = if short { 1000 } else { 1 };
    (BYTES / len).min(20_000_000) / share
}

fn report(how: &str, len: usize, seconds: f64) {
    let gigabits = len as f64 * 8.0 / seconds / 1e9;
    println!(
        "{len} bytes, {how}: {gigabits:.1} Gbit/s, {:.1} million frames/s",
        1e-6 / seconds
    );
}
