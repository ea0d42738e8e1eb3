//! How an argument is given to a tracer.

use super::Text;

/// What goes into a register.
pub(crate) trait Argument {
    /// The [kind](super::ArgumentOf::kind) of its type.
    const KIND: &'static str;

    /// Its value as a signed number of the register's size, which a tracer takes the bits of.
    fn register(&self) -> isize;
}

macro_rules! numbers {
    ($($type:ty),*) => {
        $(impl Argument for $type {
            const KIND: &'static str = stringify!($type);

            #[inline]
            fn register(&self) -> isize {
                *self as isize
            }
        })*
    };
}

numbers!(u8, u16, u32, u64);

/// Its address: it ends with a zero byte.
impl Argument for Text {
    const KIND: &'static str = "string";

    #[inline]
    fn register(&self) -> isize {
        self.as_ptr() as isize
    }
}
