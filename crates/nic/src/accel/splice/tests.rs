//! Tests of splicing. Two TCPs with a splice between them are in `tests/splice`.

mod memory;
mod samples;
mod timers;
mod translation;
