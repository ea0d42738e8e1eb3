//! Structures whose fields stand at fixed places: what declares a field says where it is, for the reader and the writer alike.

use crate::bytes::array_at;

/// Big-endian, as in iSCSI and NBD.
pub(crate) enum Be {}

/// Little-endian, as in NVMe.
pub(crate) enum Le {}

/// Some bits of a byte: where the byte is, and their mask.
pub(crate) struct Bits(pub(crate) usize, pub(crate) u8);

/// A value at a place among bytes of some order.
pub(crate) trait Field<Order, Place = usize>: Sized {
    /// Reads it.
    fn get(bytes: &[u8], place: Place) -> Self;

    /// Writes it. Of [`Bits`] only those are written that are set: the byte was zero before.
    fn put(&self, bytes: &mut [u8], place: Place);
}

macro_rules! integers {
    ($($int:ty),*) => {$(
        impl Field<Be> for $int {
            #[inline(always)]
            fn get(bytes: &[u8], at: usize) -> $int {
                <$int>::from_be_bytes(array_at(bytes, at))
            }

            #[inline(always)]
            fn put(&self, bytes: &mut [u8], at: usize) {
                bytes[at..at + size_of::<$int>()].copy_from_slice(&self.to_be_bytes());
            }
        }

        impl Field<Le> for $int {
            #[inline(always)]
            fn get(bytes: &[u8], at: usize) -> $int {
                <$int>::from_le_bytes(array_at(bytes, at))
            }

            #[inline(always)]
            fn put(&self, bytes: &mut [u8], at: usize) {
                bytes[at..at + size_of::<$int>()].copy_from_slice(&self.to_le_bytes());
            }
        }
    )*};
}

integers!(u8, u16, u32, u64, u128);

impl<Order, T: Field<Order>, const N: usize> Field<Order> for [T; N] {
    #[inline(always)]
    fn get(bytes: &[u8], at: usize) -> [T; N] {
        std::array::from_fn(|number| T::get(bytes, at + number * size_of::<T>()))
    }

    #[inline(always)]
    fn put(&self, bytes: &mut [u8], at: usize) {
        for (number, item) in self.iter().enumerate() {
            item.put(bytes, at + number * size_of::<T>());
        }
    }
}

impl<Order> Field<Order, Bits> for bool {
    #[inline(always)]
    fn get(bytes: &[u8], Bits(at, mask): Bits) -> bool {
        bytes[at] & mask != 0
    }

    #[inline(always)]
    fn put(&self, bytes: &mut [u8], Bits(at, mask): Bits) {
        bytes[at] |= if *self { mask } else { 0 };
    }
}

impl<Order> Field<Order, Bits> for u8 {
    #[inline(always)]
    fn get(bytes: &[u8], Bits(at, mask): Bits) -> u8 {
        bytes[at] & mask
    }

    #[inline(always)]
    fn put(&self, bytes: &mut [u8], Bits(at, mask): Bits) {
        bytes[at] |= self & mask;
    }
}

/// Gives a type that holds nothing but a field the place of that field.
macro_rules! field {
    ($name:ident($inner:ty)) => {
        impl<Order> $crate::fields::Field<Order> for $name
        where
            $inner: $crate::fields::Field<Order>,
        {
            #[inline(always)]
            fn get(bytes: &[u8], at: usize) -> $name {
                $name(<$inner as $crate::fields::Field<Order>>::get(bytes, at))
            }

            #[inline(always)]
            fn put(&self, bytes: &mut [u8], at: usize) {
                $crate::fields::Field::<Order>::put(&self.0, bytes, at);
            }
        }
    };
}

/// A structure whose fields have places. Fields behind a semicolon have none: `read` takes them, and `write` leaves them to the caller.
macro_rules! fields {
    (
        $order:ident: $(#[$meta:meta])* pub struct $name:ident {
            $($(#[$doc:meta])* $field:ident: $type:ty = $place:expr,)*
            $(; $($(#[$other_doc:meta])* $other:ident: $other_type:ty,)*)?
        }
    ) => {
        $(#[$meta])*
        pub struct $name {
            $($(#[$doc])* pub $field: $type,)*
            $($($(#[$other_doc])* pub $other: $other_type,)*)?
        }

        impl $name {
            #[inline(always)]
            pub(crate) fn read(bytes: &[u8] $($(, $other: $other_type)*)?) -> $name {
                $name {
                    $($field: $crate::fields::Field::<$crate::fields::$order, _>::get(bytes, $place),)*
                    $($($other,)*)?
                }
            }

            #[inline(always)]
            pub(crate) fn write(&self, bytes: &mut [u8]) {
                $($crate::fields::Field::<$crate::fields::$order, _>::put(&self.$field, bytes, $place);)*
            }
        }
    };
}

/// Lets a structure of [`fields`] be a field of another one.
macro_rules! part {
    ($order:ident: $name:ident) => {
        impl $crate::fields::Field<$crate::fields::$order> for $name {
            #[inline(always)]
            fn get(bytes: &[u8], at: usize) -> $name {
                $name::read(&bytes[at..])
            }

            #[inline(always)]
            fn put(&self, bytes: &mut [u8], at: usize) {
                self.write(&mut bytes[at..]);
            }
        }
    };
}

/// Reads and writes a structure of [`fields`] as a page of so many bytes, of which it may give a meaning to a few.
macro_rules! page {
    ($name:ident, $len:expr) => {
        impl $name {
            /// Parses a page.
            ///
            /// # Errors
            /// If the page is not there as a whole.
            pub fn parse(bytes: &[u8]) -> Result<$name, $crate::ParseError> {
                $crate::ParseError::require(bytes, $len)?;
                Ok($name::read(bytes))
            }

            /// Writes the page at the front of `buffer`.
            pub fn emit(&self, buffer: &mut [u8]) {
                let page = &mut buffer[..$len];
                page.fill(0);
                self.write(page);
            }
        }
    };
}

/// Reads and writes a structure of [`fields`] as exactly so many bytes.
macro_rules! entry {
    ($name:ident, $len:expr) => {
        impl $name {
            /// Reads the bytes. It judges nothing.
            #[must_use]
            pub fn parse(bytes: &[u8; $len]) -> $name {
                $name::read(bytes)
            }

            /// The bytes on the wire.
            #[must_use]
            pub fn to_bytes(&self) -> [u8; $len] {
                let mut bytes = [0; $len];
                self.write(&mut bytes);
                bytes
            }
        }
    };
}

/// An enumeration of what numbers on the wire stand for.
macro_rules! codes {
    (
        $(#[$meta:meta])* pub enum $name:ident: $int:ident {
            $($(#[$doc:meta])* $variant:ident = $code:literal,)*
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr($int)]
        pub enum $name {
            $($(#[$doc])* $variant = $code,)*
        }

        impl $name {
            /// What a number stands for, if it is one of these.
            #[inline]
            #[must_use]
            pub const fn from_code(code: $int) -> Option<$name> {
                Some(match code {
                    $($code => $name::$variant,)*
                    _ => return None,
                })
            }
        }
    };
}

pub(crate) use {codes, entry, field, fields, page, part};
