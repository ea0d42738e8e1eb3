//! CRC-32C, the digest over headers and data (RFC 3720 §12.1, NVMe/TCP 1.0 §3.3.1.1), and what its linearity gives.

use shared::{Input, Output};

#[cfg(test)]
mod tests;

/// The polynomial 0x1EDC6F41, lowest power in the highest bit.
const POLYNOMIAL: u32 = 0x82f6_3b78;

/// Bytes that are copied and added to a digest at a time: the second pass finds them in the L1 cache.
const CHUNK: usize = 4096;

/// Bytes that are read from shared memory at a time: six of the pieces of 768 bytes that the digest takes fastest.
const SHARED_CHUNK: usize = 4608;

/// A digest over the bytes so far.
///
/// Costs on a CPU with SSE 4.2: 0.2 cycles per byte in packets, 0.13 in 64 KiB and more; about 30 cycles per call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crc32c {
    /// The remainder, without the inversion of the finished digest.
    state: u32,
}

impl Crc32c {
    /// A digest over nothing.
    #[inline]
    #[must_use]
    pub const fn new() -> Crc32c {
        Crc32c { state: !0 }
    }

    /// The digest of `bytes`.
    #[inline]
    #[must_use]
    pub fn of<'a>(bytes: impl Into<Input<'a>>) -> u32 {
        let mut digest = Crc32c::new();
        digest.update(bytes);
        digest.finish()
    }

    /// Goes on with `bytes`.
    #[inline]
    pub fn update<'a>(&mut self, bytes: impl Into<Input<'a>>) {
        let mut bytes = bytes.into();
        if let Input::Own(bytes) = bytes {
            self.state = !crc32c::crc32c_append(!self.state, bytes);
            return;
        }
        while !bytes.is_empty() {
            let (now, later) = bytes.split_at(bytes.len().min(SHARED_CHUNK));
            now.read::<SHARED_CHUNK, _>(|bytes| self.update(bytes));
            bytes = later;
        }
    }

    /// Copies the bytes of `input` to `output`, and goes on with what was written there, in the same pass over memory. So the digest
    /// is that of the output also when the input changes meanwhile.
    ///
    /// # Panics
    /// When the two differ in length.
    #[inline]
    pub fn copy<'i, 'o>(&mut self, input: impl Into<Input<'i>>, output: impl Into<Output<'o>>) {
        let (mut input, mut output) = (input.into(), output.into());
        assert_eq!(input.len(), output.len());
        while !input.is_empty() {
            let (now, later) = input.split_at(input.len().min(CHUNK));
            let (made, rest) = output.split_at(now.len());
            match made {
                Output::Own(made) => {
                    now.copy_to(made);
                    self.update(&*made);
                }
                Output::Shared(made) => {
                    now.read::<CHUNK, _>(|bytes| {
                        self.update(bytes);
                        made.copy_from(bytes);
                    });
                }
            }
            (input, output) = (later, rest);
        }
    }

    /// Goes on with `len` zeros, in time that grows with the logarithm of `len`.
    #[inline]
    pub fn update_zeros(&mut self, len: u32) {
        self.state = shifted(self.state, len);
    }

    /// The digest.
    #[inline]
    #[must_use]
    pub const fn finish(self) -> u32 {
        !self.state
    }
}

impl Default for Crc32c {
    fn default() -> Crc32c {
        Crc32c::new()
    }
}

/// What `bytes` add to the digest of a message in which `behind` more bytes follow them: the exclusive or of the message's digest
/// with zeros in their place, and this, is the digest of the message with them.
#[inline]
#[must_use]
pub fn share(bytes: &[u8], behind: u32) -> u32 {
    // An inverted start of 0 is a remainder of all ones; the other way round takes the digest's inversions out.
    let remainder = !crc32c::crc32c_append(!0, bytes);
    shifted(remainder, behind)
}

/// A remainder after `len` more bytes, all zeros: multiplied by x to the power of eight times `len`.
fn shifted(state: u32, len: u32) -> u32 {
    let mut state = state;
    for (table, byte) in SHIFTS.iter().zip(len.to_le_bytes()) {
        if byte != 0 {
            state = multiply(table[usize::from(byte)], state);
        }
    }
    state
}

/// `SHIFTS[i][n]` is x to the power of 8 × n × 256^i.
static SHIFTS: [[u32; 256]; 4] = shifts();

const ONE: u32 = 1 << 31;

const fn shifts() -> [[u32; 256]; 4] {
    let mut tables = [[ONE; 256]; 4];
    // x to the power of 8 × 256^i
    let mut step = ONE >> 8;
    let mut i = 0;
    while i < 4 {
        let mut n = 1;
        while n < 256 {
            tables[i][n] = multiply(tables[i][n - 1], step);
            n += 1;
        }
        step = multiply(tables[i][255], step);
        i += 1;
    }
    tables
}

/// The product of two polynomials of degree 31 at most, four bits at a time.
const fn multiply(a: u32, b: u32) -> u32 {
    const REDUCED: [u32; 16] = reduced();
    // The products of `b` and the 16 polynomials of degree 3 at most.
    let mut products = [0; 16];
    products[8] = b;
    products[4] = times_x(products[8]);
    products[2] = times_x(products[4]);
    products[1] = times_x(products[2]);
    let mut i = 3;
    while i < 16 {
        let lowest = i & (!i + 1);
        products[i] = products[lowest] ^ products[i ^ lowest];
        i += 1;
    }
    let mut product = 0;
    let mut shift = 0;
    while shift < 32 {
        product = product >> 4 ^ REDUCED[(product & 15) as usize];
        product ^= products[(a >> shift & 15) as usize];
        shift += 4;
    }
    product
}

/// The four highest powers times x^4.
const fn reduced() -> [u32; 16] {
    let mut table = [0; 16];
    let mut n = 0;
    while n < 16 {
        table[n] = times_x(times_x(times_x(times_x(n as u32))));
        n += 1;
    }
    table
}

const fn times_x(a: u32) -> u32 {
    a >> 1 ^ POLYNOMIAL & (a & 1).wrapping_neg()
}
