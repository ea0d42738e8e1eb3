//! Text that the C library formats and writes to a descriptor.

use std::ffi::{c_char, c_int, c_void};
use std::ptr;
use std::slice;
use std::sync::Arc;

use kernel_tls::{Errno, RECORD_TYPE_DATA, Session};
use libc::size_t;

use crate::next::{interpose, other_names};
use crate::{answer, table};

/// `va_list` as an argument: the address of the caller's.
type VaList = *mut c_void;

unsafe extern "C" {
    fn vasprintf(text: *mut *mut c_char, format: *const c_char, arguments: VaList) -> c_int;
    fn __vasprintf_chk(
        text: *mut *mut c_char,
        flag: c_int,
        format: *const c_char,
        arguments: VaList,
    ) -> c_int;
}

interpose! {
    fn vdprintf(fd: c_int, format: *const c_char, arguments: VaList) -> c_int {
        match table::sender(fd) {
            // SAFETY: the caller's format and arguments.
            Some(session) => send(&session, fd, |text| unsafe {
                vasprintf(text, format, arguments)
            }),
            None => next(fd, format, arguments),
        }
    }

    fn __vdprintf_chk(fd: c_int, flag: c_int, format: *const c_char, arguments: VaList) -> c_int {
        match table::sender(fd) {
            // SAFETY: the caller's format and arguments.
            Some(session) => send(&session, fd, |text| unsafe {
                __vasprintf_chk(text, flag, format, arguments)
            }),
            None => next(fd, flag, format, arguments),
        }
    }
}

/// Sends a text, which `format` puts into memory; answers as `dprintf` does.
fn send(
    session: &Arc<Session>,
    fd: c_int,
    format: impl FnOnce(*mut *mut c_char) -> c_int,
) -> c_int {
    let mut text = ptr::null_mut();
    let length = format(&raw mut text);
    let Ok(bytes) = usize::try_from(length) else {
        return length;
    };
    // SAFETY: the C library has put as many bytes there.
    let mut left = unsafe { slice::from_raw_parts(text.cast::<u8>(), bytes) };
    let mut sent = Ok(0);
    while !left.is_empty() && sent.is_ok() {
        sent = session.send(table::borrow(&fd), &[left], RECORD_TYPE_DATA, 0);
        left = &left[sent.unwrap_or(0)..];
    }
    // SAFETY: what the C library has allocated for this call.
    unsafe { libc::free(text.cast()) };
    match sent {
        Ok(_) => length,
        Err(error) => answer::fail(error),
    }
}

interpose! {
    fn backtrace_symbols_fd(addresses: *const *mut c_void, count: c_int, fd: c_int) -> () {
        // It may be called where nothing can be allocated: a TLS socket gets none of it.
        if table::get(fd).is_none() {
            next(addresses, count, fd);
        }
    }

    fn eventfd_write(fd: c_int, value: u64) -> c_int {
        match table::get(fd) {
            Some(_) => answer::fail(Errno::INVAL),
            None => next(fd, value),
        }
    }

    fn eventfd_read(fd: c_int, value: *mut u64) -> c_int {
        match table::get(fd) {
            Some(_) => answer::fail(Errno::INVAL),
            None => next(fd, value),
        }
    }
}

other_names! {
    fn __backtrace_symbols_fd(addresses: *const *mut c_void, count: c_int, fd: c_int) -> () = backtrace_symbols_fd;
}

/// Bytes of what the registers hold of a call's arguments, as `va_arg` finds them (System V ABI, AMD64, §3.5.7).
#[cfg(target_arch = "x86_64")]
const REGISTERS: size_t = 6 * 8 + 8 * 16;

/// A function with a variable number of arguments that gives them to another one as a `va_list`: Rust has no such functions. `$named` of them have names, and
/// `$register` is the one for the `va_list`.
#[cfg(target_arch = "x86_64")]
macro_rules! variadic {
    ($name:ident, $named:literal, $register:literal, $to:ident) => {
        /// # Safety
        /// As of the C library's.
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        pub unsafe extern "C" fn $name() -> c_int {
            std::arch::naked_asm!(
                "sub rsp, {frame}",
                "mov [rsp + 24], rdi",
                "mov [rsp + 32], rsi",
                "mov [rsp + 40], rdx",
                "mov [rsp + 48], rcx",
                "mov [rsp + 56], r8",
                "mov [rsp + 64], r9",
                "movups [rsp + 72], xmm0",
                "movups [rsp + 88], xmm1",
                "movups [rsp + 104], xmm2",
                "movups [rsp + 120], xmm3",
                "movups [rsp + 136], xmm4",
                "movups [rsp + 152], xmm5",
                "movups [rsp + 168], xmm6",
                "movups [rsp + 184], xmm7",
                "mov dword ptr [rsp], {used}",
                "mov dword ptr [rsp + 4], 48",
                "lea rax, [rsp + {frame} + 8]",
                "mov [rsp + 8], rax",
                "lea rax, [rsp + 24]",
                "mov [rsp + 16], rax",
                concat!("mov ", $register, ", rsp"),
                "call {to}",
                "add rsp, {frame}",
                "ret",
                // The `va_list`, the registers: aligned as the callee wants it.
                frame = const 24 + REGISTERS,
                used = const $named * 8,
                to = sym $to,
            )
        }
    };
}

#[cfg(target_arch = "x86_64")]
variadic!(dprintf, 2, "rdx", vdprintf);
#[cfg(target_arch = "x86_64")]
variadic!(__dprintf_chk, 3, "rcx", __vdprintf_chk);
