//! Groups of counters with their names, each with one line of documentation, which `longshore stat --explain` shows.

/// Defines a struct of counters.
macro_rules! counters {
    ($(#[$meta:meta])* $vis:vis struct $name:ident { $(#[doc = $doc:literal] $field:ident,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        $vis struct $name {
            $(#[doc = $doc] pub $field: u64,)*
        }

        impl $name {
            /// What each counts, in one sentence, by its name.
            pub const EXPLANATIONS: &'static [(&'static str, &'static str)] =
                &[$((stringify!($field), $doc),)*];

            /// Names and values.
            pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
                [$((stringify!($field), self.$field),)*].into_iter()
            }
        }
    };
}

pub(crate) use counters;
