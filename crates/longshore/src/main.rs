//! The longshore command.
fn main() {}
