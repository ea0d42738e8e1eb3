//! What a NIC offers, before a host has a function.

use super::Answer;

/// Makes [`Identity`] and its codec of a list of words.
macro_rules! identity {
    ($($(#[$doc:meta])* $field:ident,)*) => {
        /// What a NIC offers to the host of a socket, as words.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
        pub struct Identity {
            $($(#[$doc])* pub $field: u64,)*
        }

        /// Names of the words.
        pub(crate) const IDENTITY: [&str; [$(stringify!($field)),*].len()] = [$(stringify!($field)),*];

        impl Identity {
            pub(crate) fn words(&self) -> [u64; IDENTITY.len()] {
                [$(self.$field),*]
            }

            /// The answer to who asks for a word.
            pub(crate) fn answer(&self, at: u64) -> Answer {
                let words = self.words();
                let word = usize::try_from(at).ok().and_then(|at| words.get(at));
                Answer::Identity {
                    word: word.copied().unwrap_or(0),
                    words: words.len() as u64,
                }
            }

            pub(crate) fn of([$($field),*]: [u64; IDENTITY.len()]) -> Identity {
                Identity { $($field),* }
            }
        }
    };
}

identity! {
    /// Version of messages and rings.
    version,
    /// Bits of the features that it offers.
    features,
    /// Bit `n` is set if it knows the protocol with id `n`.
    protocols,
    /// Largest IP packet on its wire.
    mtu,
    /// Most queues.
    queues,
    /// Most slots of a send ring.
    send_entries,
    /// Most slots of a command ring.
    command_entries,
    /// Most slots of a receive ring.
    receive_entries,
    /// Most slots of a fill ring of small buffers.
    small_entries,
    /// Most slots of a fill ring of large buffers.
    large_entries,
    /// Most contexts.
    contexts,
    /// Most tags of all contexts.
    tags,
    /// Most connections in teardown or TIME-WAIT.
    closing,
    /// Most bytes of packet memory.
    packet_memory,
    /// Most splices.
    splices,
    /// Most connections handed off.
    toe_connections,
    /// Listening rules.
    listeners,
    /// Bytes for what contexts share.
    resource_bytes,
    /// Most regions at a time.
    regions,
    /// Most of them that are read-only files.
    files,
    /// Most bytes of memory that the NIC may write to, in all regions.
    writable_bytes,
    /// Most bytes of all regions.
    mapped_bytes,
}
