//! Which way an engine works.

/// Which way an engine transforms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Towards the wire: a dummy integrity check value is replaced, plaintext becomes ciphertext.
    Transmit,
    /// From the wire: the integrity check value is checked, ciphertext becomes plaintext.
    Receive,
}
