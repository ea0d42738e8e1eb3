//! Regions: what is inside of one, and which the device knows.

use std::sync::{Arc, Mutex};

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use testkit::written::shorten;

use super::super::super::region::{Region, RegionId, Slice};
use super::super::super::regions::{DeviceRegions, Regions, Sharing};
use super::compare;

/// Lengths and places around the ends of a region.
#[test]
#[cfg_attr(miri, ignore = "it reads a file")]
fn what_is_inside_is_as_written_down() {
    let mut lines = Vec::new();
    let owner = Arc::new(vec![9u8; 16]);
    let start = owner.as_ptr().cast_mut();
    // SAFETY: the vector's 16 bytes live as long as it does, and the region is read-only.
    let fixed = unsafe { Region::from_raw_parts(start, 16, owner, false) };
    let faulted = Region::anonymous(16);
    faulted
        .faulted
        .store(true, std::sync::atomic::Ordering::Release);
    let open = Region::anonymous(16);
    for (name, region) in [("open", &open), ("fixed", &fixed), ("faulted", &faulted)] {
        let about = (region.len(), region.is_empty(), region.writable());
        let lasts = (region.is_lasting(), region.is_faulted());
        lines.push(format!(
            "{name} {about:?} {lasts:?} {}",
            region.backing().is_some()
        ));
        for offset in [0, 1, 15, 16, 17, u64::MAX] {
            for len in [0, 1, 2, 16, 17] {
                let mut bytes = vec![1; len];
                let read = region.read(offset, &mut bytes);
                let write = region.write(offset, &vec![7; len]);
                let seen = region.view(offset, len).is_some();
                let seen_mut = region.view_mut(offset, len).is_some();
                let target = Region::anonymous(16);
                let copies = [
                    region.copy_to(offset, &target, 0, len as u32),
                    target.copy_to(0, region, offset, len as u32),
                ];
                let all = [read, write, seen, seen_mut, copies[0], copies[1]];
                let all: String = all.map(|it| if it { '1' } else { '0' }).iter().collect();
                lines.push(format!("{offset} {len}: {all} {bytes:?}"));
            }
        }
    }
    compare("regions", &shorten(lines, 66));
}

/// Remembers what it is told.
#[derive(Debug, Default)]
struct Remembers(Mutex<Vec<String>>);

impl Sharing for Remembers {
    fn allocate(&self, len: usize) -> std::io::Result<Region> {
        self.say(format!("allocate {len}"));
        Ok(Region::anonymous(len))
    }

    fn register(&self, id: RegionId, region: &Region) -> Result<(), String> {
        self.say(format!("register {} {}", id.0, region.len()));
        match region.len() {
            5 => Err("not that one".to_owned()),
            _ => Ok(()),
        }
    }

    fn unregister(&self, id: RegionId) {
        self.say(format!("unregister {}", id.0));
    }
}

impl Remembers {
    fn say(&self, what: String) {
        self.0.lock().expect("it is whole").push(what);
    }
}

/// One step of the host's, and what is seen of it.
fn step(regions: &Regions, kind: u32, id: u16) -> String {
    let region = || Arc::new(Region::anonymous(usize::from(id) + 1));
    match kind {
        0..3 => format!("register {:?}", regions.register(region())),
        3 => {
            let gone = regions.unregister(RegionId(id));
            format!("unregister {id} {:?}", gone.map(|gone| gone.len()))
        }
        4 => {
            regions.place(RegionId(id), Some(region()));
            format!("place {id}")
        }
        5 => {
            regions.place(RegionId(id), None);
            format!("place nothing {id}")
        }
        _ => {
            let all = regions.all();
            let all: Vec<_> = all.iter().map(|(id, it)| (id.0, it.len())).collect();
            let got = regions.get(RegionId(id)).map(|it| it.len());
            format!("all {all:?}, {id} {got:?}")
        }
    }
}

/// What the device finds of slices of each region.
fn found(device: &DeviceRegions) -> String {
    let found = (0..8).map(|id| {
        let slice = Slice {
            offset: 3,
            len: 1,
            region: RegionId(id),
        };
        let found = device.locate(slice);
        found.map_or("-".to_owned(), |(region, at)| {
            format!("{}@{at}", region.len())
        })
    });
    found.collect::<Vec<_>>().join(" ")
}

#[test]
#[cfg_attr(miri, ignore = "it reads a file")]
fn the_device_knows_regions_as_written_down() {
    let mut lines = Vec::new();
    let (regions, remembers) = (Arc::new(Regions::default()), Arc::<Remembers>::default());
    let shared = Regions::shared_by(Arc::clone(&remembers) as Arc<dyn Sharing>);
    let mut device = DeviceRegions::new(Arc::clone(&regions));
    let mut rng = Pcg64Mcg::seed_from_u64(7);
    for _ in 0..300 {
        let (kind, id) = (rng.random_range(0..8), rng.random_range(0..7));
        let here = step(&regions, kind, id);
        if kind < 4 {
            lines.push(step(&shared, kind, id));
        }
        let before = found(&device);
        device.refresh();
        lines.push(format!("{here}: {before}, then {}", found(&device)));
    }
    lines.extend(shared.allocate(3).map(|it| it.len().to_string()));
    lines.append(&mut remembers.0.lock().expect("it is whole"));
    compare("registry", &shorten(lines, 70));
}

#[test]
#[cfg_attr(miri, ignore = "it reads a file")]
fn bus_addresses_are_found_as_written_down() {
    let mut lines = Vec::new();
    let regions = Arc::new(Regions::default());
    let mut device = DeviceRegions::new(Arc::clone(&regions));
    let mut find = |name: &str, device: &mut DeviceRegions| {
        device.refresh();
        let at = |offset| {
            let slice = Slice {
                offset,
                len: 1,
                region: RegionId(0),
            };
            let found = device.locate(slice);
            found.map_or("-".to_owned(), |(region, at)| {
                format!("{}@{at}", region.len())
            })
        };
        let places = [0, 99, 100, 101, 109, 110, 111, 129, 130, 131, 200];
        lines.push(format!("{name}: {}", places.map(at).join(" ")));
    };
    find("nothing", &mut device);
    regions.map(110, Arc::new(Region::anonymous(20)));
    find("one", &mut device);
    regions.map(130, Arc::new(Region::anonymous(5)));
    regions.map(100, Arc::new(Region::anonymous(10)));
    find("three", &mut device);
    regions.unmap(110);
    find("two", &mut device);
    regions.unmap(111);
    find("still two", &mut device);
    for (start, len, name) in [(99, 2, "before"), (109, 1, "inside"), (110, 21, "behind")] {
        let regions = Arc::clone(&regions);
        let map = move || regions.map(start, Arc::new(Region::anonymous(len)));
        let refused = std::panic::catch_unwind(std::panic::AssertUnwindSafe(map)).is_err();
        lines.push(format!("{name} {refused}"));
    }
    compare("bus_addresses", &lines);
}
