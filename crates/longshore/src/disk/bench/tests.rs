use std::time::Duration;

use anyhow::Result;
use clap::Parser as _;

use super::{Places, Times};
use crate::bench::latency::histogram;
use crate::disk::{Action, Bench, Block, Disk, Geometry, Part};

#[derive(clap::Parser)]
struct Line {
    #[command(flatten)]
    how: Bench,
}

fn bench(more: &[&str]) -> Result<Bench, clap::Error> {
    let words = ["bench"].iter().chain(more);
    Line::try_parse_from(words).map(|line| line.how)
}

/// Never used but for its name.
struct Namespace;

impl Disk for Namespace {
    const NOUN: &'static str = "namespace";

    fn name(&self) -> String {
        Self::NOUN.to_owned()
    }

    fn geometry(&self) -> Geometry {
        geometry(1 << 20, 512)
    }

    fn part_len(&self) -> u32 {
        512
    }

    fn take_block(&self) -> Option<Block> {
        None
    }

    fn submit(&mut self, _: Action, _: Part) -> Result<()> {
        Ok(())
    }

    fn poll_done(&mut self) -> Result<Option<(Part, Duration)>> {
        Ok(None)
    }

    fn wait(&mut self) -> Result<()> {
        Ok(())
    }
}

fn geometry(size: u64, block_size: u32) -> Geometry {
    Geometry {
        size,
        block_size,
        is_read_only: false,
        has_cache: false,
    }
}

fn places_of(options: &Bench, size: u64, block_size: u32) -> Result<Places> {
    Places::new::<Namespace>(options, geometry(size, block_size), 7)
}

#[test]
fn commands_go_to_whole_places_inside_the_namespace() {
    let options = bench(&["--io-bytes", "8192"]).unwrap();
    let mut places = places_of(&options, 100_000, 4096).unwrap();
    let mut seen = [false; 12];
    for _ in 0..1000 {
        let place = places.next();
        assert!(place.is_multiple_of(8192) && place + 8192 <= 100_000);
        seen[(place / 8192) as usize] = true;
    }
    assert_eq!(seen, [true; 12]);
    let options = bench(&["--io-bytes", "8192", "--sequential"]).unwrap();
    let mut places = places_of(&options, 20_000, 512).unwrap();
    assert_eq!([0; 3].map(|_| places.next()), [0, 8192, 0]);
}

#[test]
fn commands_that_do_not_fit_are_refused_by_their_size() {
    let refused = |bytes, size, block_size| {
        let options = bench(&["--io-bytes", bytes]).unwrap();
        places_of(&options, size, block_size)
            .err()
            .expect("it is refused")
            .to_string()
    };
    assert!(refused("6000", 1 << 20, 4096).contains("not a multiple"));
    assert!(refused("8192", 4096, 4096).contains("more than the namespace has, 4096 bytes"));
    assert!(bench(&["--io-bytes", "0"]).is_err());
}

#[test]
fn latencies_are_in_microseconds_whatever_their_size() {
    let mut nanos = histogram();
    for micros in [1, 20, 30, 2000] {
        nanos.saturating_record(micros * 1000);
    }
    let line = Times::of(&nanos).line();
    assert!(line.starts_with("lat (usec): min=1.0, avg=51"), "{line}");
    assert!(
        line.contains("p50=20.0") && line.contains("max=2000."),
        "{line}"
    );
}
