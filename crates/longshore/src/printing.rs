//! What commands print.

use std::fmt;
use std::io::{self, Write};
use std::process::exit;

/// Prints a line to the standard output, as `println!` does, but see [`put`].
macro_rules! outln {
    ($($arg:tt)*) => {
        $crate::printing::put(format_args!("{}\n", format_args!($($arg)*)))
    };
}

/// Writes to the standard output. A reader that has seen enough, as `head` does, ends the command, and is no error. Not for
/// services, which go on whether or not they are read.
pub fn put(text: impl fmt::Display) {
    check(write!(io::stdout(), "{text}"));
}

/// The same for bytes.
pub fn put_bytes(bytes: &[u8]) {
    check(io::stdout().write_all(bytes));
}

/// Has all that was written leave.
pub fn flush() {
    check(io::stdout().flush());
}

fn check(written: io::Result<()>) {
    match written {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => exit(0),
        Err(error) => {
            let _ = writeln!(io::stderr(), "longshore: the standard output: {error}");
            exit(1)
        }
    }
}
