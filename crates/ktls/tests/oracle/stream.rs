//! What is sent: bytes that tell where they are, and that nothing else looks like.

/// Every other half of eight bytes.
const MAGIC: [u8; 4] = [0xa7, 0x1c, 0xe9, 0x53];

/// The bytes of a direction's stream. `which` tells one stream from another.
#[derive(Clone, Copy, Debug)]
pub struct Stream {
    pub which: u32,
}

impl Stream {
    /// The bytes from `offset` on.
    pub fn fill(self, offset: usize, bytes: &mut [u8]) {
        for (at, byte) in (offset..).zip(bytes) {
            let number = (at as u32 / 8).wrapping_mul(0x9e37_79b1) ^ self.which;
            *byte = match at % 8 {
                place @ 0..4 => MAGIC[place],
                place => number.to_le_bytes()[place - 4],
            };
        }
    }

    pub fn bytes(self, offset: usize, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.fill(offset, &mut bytes);
        bytes
    }

    /// Fails when these are not the bytes from `offset` on.
    pub fn check(self, offset: usize, bytes: &[u8]) -> Result<(), String> {
        let wanted = self.bytes(offset, bytes.len());
        match wanted.iter().zip(bytes).position(|(a, b)| a != b) {
            None => Ok(()),
            Some(at) => Err(format!("another byte at {} of the stream", offset + at)),
        }
    }
}

/// Whether any stream's bytes show: 19 or more in a row are always found, and nothing else is taken for them but once in 2^64 places.
pub fn shows(bytes: &[u8]) -> bool {
    let is_magic = |at: usize| bytes.get(at..at + 4) == Some(&MAGIC[..]);
    (0..bytes.len()).any(|at| bytes[at] == MAGIC[0] && is_magic(at) && is_magic(at + 8))
}
