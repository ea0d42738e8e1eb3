//! How structs are declared.

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
