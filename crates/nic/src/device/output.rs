//! From the hosts' rings and the NIC itself to the wire: the next frame.

use std::time::Instant;

use wire::ethernet::{self, MacAddr};

use super::Nic;
use crate::frame::FrameMeta;
use crate::function::Function;
use crate::receive;
use crate::send::borrowed::{BorrowedFrame, BorrowedPayload};
use crate::switch::Destination;
use crate::switch::FunctionId;
use crate::transmit;

/// A frame that a step has given.
struct Made {
    sender: FunctionId,
    len: usize,
    meta: FrameMeta,
    borrowed: Option<BorrowedPayload>,
}

impl Nic {
    /// Frames looped between functions, and commands worked off, in one call of
    /// [`poll_transmit`](Self::poll_transmit) that gives no payload to the wire.
    const STEPS: u32 = 1024;
    /// Writes the next frame for the wire into `out`, which should have room for the MTU and an Ethernet
    /// header with a tag, or for 64 KiB when the wire segments. Gives its length, or `None` when nothing is to be sent.
    pub fn poll_transmit(&mut self, now: Instant, out: &mut [u8]) -> Option<(usize, FrameMeta)> {
        self.offloads.borrows = false;
        let made = self.next_frame(now, out)?;
        Some((made.len, made.meta))
    }

    /// As [`poll_transmit`](Self::poll_transmit), for a wire that takes frames which do not lie in one piece: a payload that goes out as the
    /// host has it is not copied.
    pub fn poll_transmit_borrowed<'a>(
        &'a mut self,
        now: Instant,
        out: &mut [u8],
    ) -> Option<BorrowedFrame<'a>> {
        self.offloads.borrows = true;
        let made = self.next_frame(now, out)?;
        let function = &self.functions[usize::from(made.sender.0)];
        Some(BorrowedFrame {
            head: made.borrowed.map_or(made.len, |borrowed| borrowed.head),
            payload: made.borrowed.map(|borrowed| {
                let gather = &function.queues[borrowed.queue].transmit.gather;
                borrowed.payload(gather, &function.regions)
            }),
            meta: made.meta,
        })
    }

    /// The next frame for the wire; what is for another function is delivered.
    fn next_frame(&mut self, now: Instant, out: &mut [u8]) -> Option<Made> {
        self.end_borrowing();
        self.again = None;
        let (accel, device) = self.offloads.accel(now);
        accel.handle_time(&device, &mut self.functions);
        for _ in 0..Self::STEPS {
            let step = self.step(now, out);
            let mut made = match step {
                transmit::Step::Frame {
                    function,
                    len,
                    meta,
                    borrowed,
                } => Made {
                    sender: function,
                    len,
                    meta,
                    borrowed,
                },
                transmit::Step::Busy => continue,
                transmit::Step::Idle => return None,
            };
            let sender = made.sender;
            let address = ethernet::destination(&out[..made.len]).unwrap_or(MacAddr::ZERO);
            let destination = self.switch.destination(address);
            if let Some(borrowed) = made.borrowed {
                match destination {
                    Destination::Wire => self.borrows_from = Some((sender, borrowed.queue)),
                    // Functions get frames in one piece.
                    _ => {
                        let function = &mut self.functions[usize::from(sender.0)];
                        function.queues[borrowed.queue].transmit.end_borrowing();
                        made.borrowed = None;
                        let gather = &function.queues[borrowed.queue].transmit.gather;
                        if !borrowed.complete(gather, &function.regions, out) {
                            function.counters.tx_errors += 1;
                            continue;
                        }
                    }
                }
            }
            let frame = &out[..made.len];
            match destination {
                Destination::Wire => return Some(made),
                Destination::Everyone => {
                    self.deliver_to_all_but(now, Some(sender), address, frame, made.meta);
                    return Some(made);
                }
                Destination::Function(id) => {
                    self.functions[usize::from(sender.0)]
                        .counters
                        .tx_loopback_packets += 1;
                    self.deliver(now, id, frame, made.meta);
                }
            }
        }
        self.again = Some(now);
        None
    }

    /// The wire has read the payload that it borrowed.
    pub(super) fn end_borrowing(&mut self) {
        if let Some((function, queue)) = self.borrows_from.take() {
            let function = &mut self.functions[usize::from(function.0)];
            function.queues[queue].transmit.end_borrowing();
        }
    }

    /// The next frame, from the functions' rings and from the NIC itself by turns: a packet's worth of bytes of its own for
    /// each frame of theirs.
    fn step(&mut self, now: Instant, out: &mut [u8]) -> transmit::Step {
        if self.own_turn > 0
            && let Some(step) = self.made(now, out)
        {
            return step;
        }
        self.own_turn = usize::from(self.offloads.config.mtu);
        let (offloads, functions) = (&mut self.offloads, &mut self.functions);
        if self.spare_due {
            self.spare_due = false;
            let step = self.turns.spare(offloads, functions, now, out);
            if !matches!(step, transmit::Step::Idle) {
                return step;
            }
        }
        let step = self.scheduler.step(offloads, functions, now, out);
        match step {
            transmit::Step::Idle => self.made(now, out).unwrap_or_else(|| self.run(now, out)),
            transmit::Step::Frame { .. } => {
                self.spare_due |= self.turns.note_frame() && self.functions.len() > 1;
                step
            }
            transmit::Step::Busy => step,
        }
    }

    /// The next frame of the connections that the NIC runs.
    fn run(&mut self, now: Instant, out: &mut [u8]) -> transmit::Step {
        let functions = &mut self.functions;
        if self.offloads.toe.is_idle() && !functions.iter_mut().any(Function::has_commands) {
            self.turns.rest();
            return transmit::Step::Idle;
        }
        let step = self.turns.step(&mut self.offloads, functions, now, out);
        if let transmit::Step::Idle = step
            && self.turns.take_worked()
        {
            let mut all = self.report_connections(now);
            for function in &mut self.functions {
                all &= receive::flush(function);
            }
            if !all {
                let retry = now + Self::RETRY;
                self.retry = Some(self.retry.map_or(retry, |known| known.min(retry)));
            }
            // What was reported may have let more go.
            self.turns.look_again(now, &self.offloads, &self.functions);
        }
        step
    }

    /// The next frame that the NIC has made.
    fn made(&mut self, now: Instant, out: &mut [u8]) -> Option<transmit::Step> {
        let (accel, device) = self.offloads.accel(now);
        if !accel.has_frames() {
            return None;
        }
        let made = accel.poll_transmit(&device, &mut self.functions, out)?;
        let counters = &mut self.functions[usize::from(made.function.0)].counters;
        counters.tx_packets += 1;
        counters.tx_bytes += made.len as u64;
        counters.accel_tx_packets += 1;
        self.own_turn = self.own_turn.saturating_sub(made.len);
        self.spare_due |= self.turns.note_frame();
        Some(transmit::Step::Frame {
            function: made.function,
            len: made.len,
            meta: made.meta,
            borrowed: None,
        })
    }
}
