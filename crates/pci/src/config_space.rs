//! The function's configuration space (PCI Local Bus 3.0 §6.1, PCI Express Base 5.0 §7.5), without the VMM's parts.

/// Vendor ID of the function, `ls` in ASCII. The PCI-SIG has not assigned it.
const VENDOR: u16 = 0x6c73;
/// Device that it names.
const DEVICE: u16 = 1;
/// Network controller, Ethernet, without a programming interface.
const CLASS: [u8; 3] = [0, 0, 2];

/// Bytes of BAR 0, registers and doorbells.
pub(crate) const REGISTERS_BYTES: u32 = 0x4000;
/// Bytes of BAR 2, vectors.
pub(crate) const VECTORS_BYTES: u32 = 0x1000;
/// Where BAR 2 has the bits of pending vectors.
const PENDING: u32 = 0x800;
/// A BAR of 64 bits, memory that is not prefetchable.
const MEMORY_64: u32 = 0b100;

/// Command, and in it Bus Master Enable.
const COMMAND: usize = 0x04;
const BUS_MASTER: u8 = 1 << 2;
/// Where the capabilities are.
const EXPRESS: usize = 0x40;
const MSIX: usize = 0x80;
/// Device Control, and in it Initiate Function Level Reset.
const DEVICE_CONTROL: usize = EXPRESS + 8;
const FLR: u16 = 1 << 15;

/// Bytes of the space.
pub(crate) const BYTES: usize = 256;

/// The space, with what has been written to it.
#[derive(Debug, Clone)]
pub struct ConfigSpace {
    bytes: [u8; BYTES],
    /// Bits that can be written.
    writable: [u8; BYTES],
    initially: [u8; BYTES],
}

impl ConfigSpace {
    /// Of a function with so many MSI-X vectors, at least one.
    pub fn new(vectors: u16) -> ConfigSpace {
        let mut space = ConfigSpace {
            bytes: [0; BYTES],
            writable: [0; BYTES],
            initially: [0; BYTES],
        };
        space.header();
        space.express();
        space.msix(vectors);
        space.initially = space.bytes;
        space
    }

    fn header(&mut self) {
        self.put(0x00, &VENDOR.to_le_bytes(), &[]);
        self.put(0x02, &DEVICE.to_le_bytes(), &[]);
        // Memory space, bus master, parity, SERR, no INTx.
        self.put(COMMAND, &[0, 0], &[0x46, 0x05]);
        // It has capabilities.
        self.put(0x06, &[0x10, 0], &[]);
        self.put(0x09, &CLASS, &[]);
        self.bar(0x10, REGISTERS_BYTES);
        self.bar(0x18, VECTORS_BYTES);
        self.put(0x2c, &VENDOR.to_le_bytes(), &[]);
        self.put(0x2e, &DEVICE.to_le_bytes(), &[]);
        self.put(0x34, &[EXPRESS as u8], &[]);
        // The system's notes of an interrupt line.
        self.put(0x3c, &[0], &[0xff]);
    }

    fn bar(&mut self, at: usize, bytes: u32) {
        let mask = !(bytes - 1);
        self.put(at, &MEMORY_64.to_le_bytes(), &mask.to_le_bytes());
        self.put(at + 4, &[0; 4], &[0xff; 4]);
    }

    /// A PCI Express endpoint with function level reset, on a link of 2.5 GT/s and one lane.
    fn express(&mut self) {
        self.put(EXPRESS, &[0x10, MSIX as u8, 0x02, 0], &[]);
        // Device Capabilities: role-based errors, FLR.
        self.put(EXPRESS + 4, &0x1000_8000u32.to_le_bytes(), &[]);
        self.put(DEVICE_CONTROL, &[0, 0], &[0xff, 0x7f]);
        self.put(EXPRESS + 0x0c, &0x11u32.to_le_bytes(), &[]);
        self.put(EXPRESS + 0x10, &[0, 0], &[0xc3, 0]);
        self.put(EXPRESS + 0x12, &0x11u16.to_le_bytes(), &[]);
    }

    fn msix(&mut self, vectors: u16) {
        let last = vectors.saturating_sub(1) & 0x7ff;
        self.put(MSIX, &[0x11, 0], &[]);
        // Enable and Function Mask can be written.
        self.put(MSIX + 2, &last.to_le_bytes(), &[0, 0xc0]);
        self.put(MSIX + 4, &2u32.to_le_bytes(), &[]);
        self.put(MSIX + 8, &(PENDING | 2).to_le_bytes(), &[]);
    }

    fn put(&mut self, at: usize, bytes: &[u8], writable: &[u8]) {
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
        self.writable[at..at + writable.len()].copy_from_slice(writable);
    }

    /// Reads from `offset` on; what is beyond the end is ones.
    pub fn read(&self, offset: u64, to: &mut [u8]) {
        for (at, byte) in (offset..).zip(to) {
            let at = usize::try_from(at).ok();
            *byte = at.and_then(|at| self.bytes.get(at)).map_or(0xff, |it| *it);
        }
    }

    /// Writes what can be written from `offset` on. True when the function is to be reset.
    #[must_use]
    pub fn write(&mut self, offset: u64, from: &[u8]) -> bool {
        let mut control = [self.bytes[DEVICE_CONTROL], self.bytes[DEVICE_CONTROL + 1]];
        for (at, byte) in (offset..).zip(from) {
            let Some(at) = usize::try_from(at).ok().filter(|at| *at < BYTES) else {
                break;
            };
            let mask = self.writable[at];
            self.bytes[at] = self.bytes[at] & !mask | byte & mask;
            if let Some(control) = at
                .checked_sub(DEVICE_CONTROL)
                .and_then(|at| control.get_mut(at))
            {
                *control = *byte;
            }
        }
        u16::from_le_bytes(control) & FLR != 0
    }

    /// Whether the system lets the function reach memory (PCI Local Bus 3.0 §6.2.2, bit 2 of Command).
    pub fn is_bus_master(&self) -> bool {
        self.bytes[COMMAND] & BUS_MASTER != 0
    }

    /// As after power-on.
    pub fn reset(&mut self) {
        self.bytes = self.initially;
    }
}
