use std::sync::Arc;

use shared::SharedSlice;

use super::super::region::{Region, RegionId, Slice};
use super::super::regions::{DeviceRegions, Regions};

fn seen(region: &Region, offset: u64, len: usize) -> Option<Vec<u8>> {
    region.view(offset, len).map(SharedSlice::to_vec)
}

#[test]
fn only_what_is_inside_is_read_or_written() {
    let region = Region::anonymous(100);
    assert!(region.write(90, &[7; 10]));
    assert!(!region.write(91, &[7; 10]));
    assert!(!region.write(u64::MAX, &[7; 2]));
    let mut bytes = [0; 10];
    assert!(region.read(90, &mut bytes));
    assert_eq!(bytes, [7; 10]);
    assert!(!region.read(95, &mut bytes));
    assert_eq!(seen(&region, 99, 1), Some(vec![7]));
    assert_eq!(seen(&region, 100, 0), Some(vec![]));
    assert_eq!(seen(&region, 99, 2), None);
    assert_eq!(seen(&region, u64::MAX - 1, 8), None);
    assert!(region.view_mut(0, 101).is_none());
    region.view_mut(98, 1).unwrap().copy_from(&[1]);
    assert_eq!(seen(&region, 98, 2), Some(vec![1, 7]));
}

#[test]
fn ranges_of_a_copy_may_overlap() {
    let region = Region::anonymous(20);
    assert!(region.write(0, &[1, 2, 3, 4, 5, 6, 7, 8]));
    assert!(region.copy_to(0, &region, 2, 8));
    let mut bytes = [0; 10];
    assert!(region.read(0, &mut bytes));
    assert_eq!(bytes, [1, 2, 1, 2, 3, 4, 5, 6, 7, 8]);
    assert!(!region.copy_to(0, &region, 13, 8));
    assert!(!region.copy_to(u64::MAX, &region, 0, 2));
}

#[test]
fn read_only_memory_is_not_written() {
    let owner = Arc::new(vec![1u8; 16]);
    let start = owner.as_ptr().cast_mut();
    // SAFETY: the vector's 16 bytes live as long as it does, and the region is read-only.
    let region = unsafe { Region::from_raw_parts(start, 16, owner, false) };
    assert!(!region.write(0, &[2]));
    assert!(!Region::anonymous(1).copy_to(0, &region, 0, 1));
    assert!(region.view_mut(0, 1).is_none());
    assert_eq!(seen(&region, 0, 1), Some(vec![1]));
}

#[test]
fn the_device_sees_registrations_when_it_refreshes() {
    let shared = Arc::new(Regions::default());
    let mut device = DeviceRegions::new(Arc::clone(&shared));
    let first = shared.register(Arc::new(Region::anonymous(1))).unwrap();
    let second = shared.register(Arc::new(Region::anonymous(2))).unwrap();
    assert!(region_of(&device, first).is_none());
    device.refresh();
    assert_eq!(region_of(&device, first).map(Region::len), Some(1));
    assert_eq!(region_of(&device, second).map(Region::len), Some(2));
    assert!(region_of(&device, RegionId(2)).is_none());

    assert!(shared.unregister(first).is_some());
    assert!(shared.unregister(first).is_none());
    device.refresh();
    assert!(region_of(&device, first).is_none());
    let third = shared.register(Arc::new(Region::anonymous(3))).unwrap();
    assert_eq!(third, first, "ids are used again");
    device.refresh();
    assert_eq!(region_of(&device, third).map(Region::len), Some(3));
}

#[test]
fn a_registry_that_repeats_another_one_has_its_ids() {
    let shared = Arc::new(Regions::default());
    let mut device = DeviceRegions::new(Arc::clone(&shared));
    shared.place(RegionId(3), Some(Arc::new(Region::anonymous(4))));
    device.refresh();
    assert_eq!(region_of(&device, RegionId(3)).map(Region::len), Some(4));
    assert!(region_of(&device, RegionId(2)).is_none());
    shared.place(RegionId(3), Some(Arc::new(Region::anonymous(5))));
    device.refresh();
    assert_eq!(region_of(&device, RegionId(3)).map(Region::len), Some(5));
    shared.place(RegionId(3), None);
    device.refresh();
    assert!(region_of(&device, RegionId(3)).is_none());
}

fn region_of(device: &DeviceRegions, region: RegionId) -> Option<&Region> {
    let slice = Slice {
        offset: 0,
        len: 1,
        region,
    };
    device.locate(slice).map(|(region, _)| region)
}

#[test]
fn memory_at_bus_addresses_is_found_by_address() {
    let regions = Arc::new(Regions::default());
    let mut device = DeviceRegions::new(Arc::clone(&regions));
    regions.map(0x8000, Arc::new(Region::anonymous(2)));
    regions.map(0x1000, Arc::new(Region::anonymous(1)));
    device.refresh();
    let found = |device: &DeviceRegions, offset, region| {
        let slice = Slice {
            offset,
            len: 1,
            region: RegionId(region),
        };
        device.locate(slice).map(|(region, at)| (region.len(), at))
    };
    assert_eq!(found(&device, 0, 0), None);
    assert_eq!(found(&device, 0xfff, 0), None);
    assert_eq!(found(&device, 0x1000, 0), Some((1, 0)));
    // Behind its end: the region refuses it.
    assert_eq!(found(&device, 0x1007, 0), Some((1, 7)));
    assert_eq!(found(&device, 0x8001, 0), Some((2, 1)));
    assert_eq!(found(&device, u64::MAX, 0), Some((2, u64::MAX - 0x8000)));
    assert_eq!(found(&device, 0x8000, 1), None, "there is no other region");
    regions.unmap(0x8000);
    device.refresh();
    assert_eq!(found(&device, 0x8000, 0), Some((1, 0x7000)));
}
