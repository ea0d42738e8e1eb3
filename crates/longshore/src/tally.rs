//! Tallies: structs of counters that are read before and after, and what lies between.

/// Defines a tally, with sum, difference and what else is made of each counter of two of them.
macro_rules! tally {
    ($(#[$of_struct:meta])* pub struct $name:ident { $($(#[$of_field:meta])* pub $field:ident: u64,)* }) => {
        $(#[$of_struct])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
        pub struct $name {
            $($(#[$of_field])* pub $field: u64,)*
        }

        impl $name {
            /// Each of these with each of those.
            pub fn with(&self, other: &Self, f: impl Fn(u64, u64) -> u64) -> Self {
                Self { $($field: f(self.$field, other.$field),)* }
            }
        }

        impl std::ops::Add for $name {
            type Output = Self;

            fn add(self, other: Self) -> Self {
                self.with(&other, |a, b| a + b)
            }
        }

        impl std::ops::Sub for $name {
            type Output = Self;

            fn sub(self, before: Self) -> Self {
                self.with(&before, |now, before| now - before)
            }
        }
    };
}

pub(crate) use tally;
