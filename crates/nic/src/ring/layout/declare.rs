//! How structs are declared, filled in and read.

/// Declares structs that slots are viewed as: their fields, their opcode, and the names of their flags. Fields whose names begin with `_` are
/// reserved.
macro_rules! layouts {
    ($($(#[doc = $about:literal])+ struct $Name:ident $(= $opcode:literal)? $([$($flag:ident = $bit:literal),+])? {
        $($(#[doc = $field_about:literal])* $field:ident: $Type:ty,)*
    })*) => {$(
        $(#[doc = $about])+
        #[derive(
            Debug, Clone, Copy,
            zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::Immutable, zerocopy::KnownLayout,
        )]
        #[repr(C)]
        pub(in crate::ring) struct $Name {
            $($(#[doc = $field_about])* pub(in crate::ring) $field: $Type,)*
        }

        impl $Name {
            pub(in crate::ring) const LAYOUT: $crate::ring::layout::Layout = $crate::ring::layout::Layout {
                name: stringify!($Name),
                about: concat!($($about),+),
                opcode: 0 $(+ $opcode)?,
                size: size_of::<$Name>(),
                flags: &[$($($crate::ring::layout::Named { name: stringify!($flag), value: $bit }),+)?],
                fields: &[$($crate::ring::layout::Field {
                    name: stringify!($field),
                    about: concat!($($field_about),*),
                    offset: std::mem::offset_of!($Name, $field),
                    size: size_of::<$Type>(),
                    kind: <$Type as $crate::ring::layout::Element>::KIND,
                    count: <$Type as $crate::ring::layout::Element>::COUNT,
                }),*],
            };
            $(pub(in crate::ring) const OPCODE: u8 = $opcode;)?
            $($(pub(in crate::ring) const $flag: u8 = $bit;)+)?
        }

        impl $crate::ring::layout::Element for $Name {
            const KIND: $crate::ring::layout::Kind = $crate::ring::layout::Kind::Struct(&$Name::LAYOUT);
            const COUNT: Option<usize> = None;
        }
    )*};
}

/// A slot with these fields, and zeros elsewhere: `name = value`, or `name` for a variable's [`Value`](super::Value).
macro_rules! slot {
    ($Slot:ident $(: $($field:ident $(= $value:expr)?),+)?) => {{
        #[allow(clippy::needless_update)] // some have no other fields
        let slot = $crate::ring::layout::$Slot {
            $($($field: $crate::ring::layout::slot!(@field $field $(= $value)?),)+)?
            ..zerocopy::FromZeros::new_zeroed()
        };
        slot
    }};
    (@field $field:ident) => { $crate::ring::layout::Value::to_field($field) };
    (@field $field:ident = $value:expr) => { $value };
}

/// Reads what [`slot!`] made from variables; fields in braces have the variables of their names.
macro_rules! value {
    ($($Type:ident)::+ $({ $($given:ident),* })? of $Slot:ident($words:expr): $($field:ident),+) => {{
        let slot = <$crate::ring::layout::$Slot as $crate::ring::layout::View>::of($words);
        $($Type)::+ {
            $($($given,)*)?
            $($field: $crate::ring::layout::Value::from_field(slot.$field),)+
        }
    }};
}

pub(in crate::ring) use {slot, value};
