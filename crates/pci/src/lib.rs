//! A function of a NIC as a PCI device of a virtual machine: what `docs/device.md` calls the PCI function.
//!
//! A VMM (QEMU's `vfio-user-pci`) connects to a [`Gate`], which is a vfio-user server in a process without privileges. The gate answers for
//! configuration space and registers by itself; for what concerns the NIC it has a [line](rings::guest) to the NIC's process:
//!
//! ```text
//!   VMM                         gate: a thread for each socket                      NIC ([`rings::Server`])
//!   DMA_MAP + file ───────────▶ those of tmpfs ──── Map ──────────────────────────▶ maps them
//!   writes CONTROL.ENABLE ────▶ Registers ───────── Rings, Features, SetUp ───────▶ a function on the switch
//!   writes DOORBELL ──────────▶ ─────────────────── an eventfd ───────────────────▶ looks at the rings
//!   MSI-X's eventfd ◀────────── a thread ◀───────── a socket for each queue ─────── rings
//!   closes the socket ────────▶ ─────────────────── the line's end ───────────────▶ removes the function
//!                               goes on with another line, and maps the memory there ◀── the NIC's next process
//! ```
//!
//! The parts: [`ConfigSpace`] and [`Registers`] are bits only, and say what is to be done; the device does it.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod config_space;
mod device;
mod files;
mod gate;
mod interrupts;
mod regions;
mod registers;
mod shared;
#[cfg(test)]
mod tests;
mod threads;

pub use config_space::ConfigSpace;
pub use gate::Gate;
pub use registers::{Action, Given, Registers};
