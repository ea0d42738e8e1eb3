//! A longshore crate.
