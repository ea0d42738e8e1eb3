//! Counters of ports, each with one line of documentation, which `longshore stat --explain` shows.

/// Defines a struct of counters with their names, so that no listing misses a counter.
macro_rules! counters {
    ($(#[$meta:meta])* $vis:vis struct $name:ident { $(#[doc = $doc:literal] $field:ident,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, Default)]
        $vis struct $name {
            $(#[doc = $doc] pub(crate) $field: u64,)*
        }

        impl $name {
            pub(crate) const EXPLANATIONS: &'static [(&'static str, &'static str)] =
                &[$((stringify!($field), $doc),)*];

            /// Gives each counter by its name.
            pub(crate) fn visit(&self, visit: &mut dyn FnMut(&'static str, u64)) {
                $(visit(stringify!($field), self.$field);)*
            }
        }
    };
}

pub(crate) use counters;

/// What each counter of a port counts, in one sentence, by its name; ports share names.
pub fn explanations() -> impl Iterator<Item = (&'static str, &'static str)> {
    [
        crate::vnet::Counters::EXPLANATIONS,
        crate::xdp::EXPLANATIONS,
        crate::memory::EXPLANATIONS,
        crate::impair::EXPLANATIONS,
        crate::capture::EXPLANATIONS,
        crate::exchange::EXPLANATIONS,
    ]
    .into_iter()
    .flatten()
    .copied()
}
