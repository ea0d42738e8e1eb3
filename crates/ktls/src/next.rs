//! The functions whose places are taken: the next ones of these names, the C library's.

use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};

/// Where a function is, once it was looked for.
pub(crate) struct Next {
    name: &'static CStr,
    at: AtomicPtr<c_void>,
}

impl Next {
    pub(crate) const fn new(name: &'static CStr) -> Next {
        Next {
            name,
            at: AtomicPtr::new(std::ptr::null_mut()),
        }
    }

    /// Its address.
    ///
    /// # Panics
    /// When no library has it: then the program could not have been linked with it either.
    #[inline]
    pub(crate) fn get(&self) -> *mut c_void {
        let at = self.at.load(Relaxed);
        if at.is_null() { self.find() } else { at }
    }

    #[cold]
    fn find(&self) -> *mut c_void {
        // SAFETY: a C string, and a handle that there is always.
        let at = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
        assert!(!at.is_null(), "no {:?} in the C library", self.name);
        self.at.store(at, Relaxed);
        at
    }
}

/// Calls the next function of a name: `next!(read(fd, buffer, len): fn(c_int, *mut c_void, size_t) -> ssize_t)`.
macro_rules! next {
    ($name:ident($($argument:expr),*): fn($($kind:ty),*) -> $answer:ty) => {{
        static NEXT: $crate::next::Next = {
            const NAME: &str = concat!(stringify!($name), "\0");
            $crate::next::Next::new(match std::ffi::CStr::from_bytes_with_nul(NAME.as_bytes()) {
                Ok(name) => name,
                Err(_) => panic!("a name has no zero in it"),
            })
        };
        // SAFETY: the function of this name has this type (POSIX, Linux's manual), and gets the arguments that this one was given.
        unsafe {
            std::mem::transmute::<*mut std::ffi::c_void, unsafe extern "C" fn($($kind),*) -> $answer>(
                NEXT.get(),
            )($($argument),*)
        }
    }};
}

/// Functions that stand in the place of the C library's. `next` calls the function whose place it is, of the same type.
macro_rules! interpose {
    ($($(#[$doc:meta])* fn $name:ident($($argument:ident: $kind:ty),* $(,)?) -> $answer:ty $body:block)*) => {$(
        $(#[$doc])*
        /// # Safety
        /// As of the C library's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $kind),*) -> $answer {
            #[inline(always)]
            fn next($($argument: $kind),*) -> $answer {
                $crate::next::next!($name($($argument),*): fn($($kind),*) -> $answer)
            }
            $body
        }
    )*};
}

/// Other names of functions of the C library, for other headers, sizes of offsets or checks.
macro_rules! other_names {
    ($(fn $name:ident($($argument:ident: $kind:ty),* $(,)?) -> $answer:ty = $same:ident;)*) => {$(
        /// # Safety
        /// As of the C library's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $kind),*) -> $answer {
            // SAFETY: the same function, as offsets have 64 bits here.
            unsafe { $same($($argument),*) }
        }
    )*};
}

pub(crate) use {interpose, next, other_names};
