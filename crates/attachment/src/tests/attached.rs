//! What tenants have attached is bounded for each user, and closed where it holds up nothing.

use std::fs;
use std::os::fd::AsFd;
use std::os::linux::fs::MetadataExt;

use crate::mapping::Closer;
use crate::{
    Admitted, DataMemory, Limits, Refusal, Registry, Request, Resolved, Shown, Slab, Tenant,
};

const GIB: u64 = 1 << 30;

fn attach(
    registry: &mut Registry,
    tenant: &mut Tenant,
    request: Request,
    file: &impl AsFd,
) -> Result<u16, Refusal> {
    let file = file.as_fd().try_clone_to_owned().unwrap();
    let admitted = Admitted {
        request,
        shown: Shown::Memory(file),
    };
    match registry.resolve(tenant, admitted)? {
        Resolved::Attached(answer) => Ok(answer.slab),
        Resolved::SlotRequest(order) => panic!("an attachment was taken for {order:?}"),
    }
}

#[test]
fn a_user_gets_half_of_the_memory_for_data_on_however_many_connections() {
    let mut registry = Registry::default();
    let mut add = |tenant: &mut Tenant, memory: &DataMemory| {
        attach(&mut registry, tenant, Request::Memory, memory)
    };
    let memory = |gibibytes| DataMemory::create(gibibytes * GIB).unwrap();
    let (mut first, mut second) = (Tenant::new(1000), Tenant::new(1000));
    let large = memory(24);
    assert_eq!(add(&mut first, &large), Ok(0));
    assert_eq!(add(&mut first, &large), Ok(1), "it counts once");
    assert_eq!(add(&mut second, &large), Ok(0), "on all connections");
    assert_eq!(add(&mut second, &memory(9)), Err(Refusal::TooMany));
    assert_eq!(add(&mut second, &memory(8)), Ok(1));
    let mut other = Tenant::new(1001);
    assert_eq!(add(&mut other, &memory(16)), Ok(0), "half of what is left");
    drop(first);
    assert_eq!(add(&mut second, &memory(1)), Err(Refusal::TooMany));
    drop(second);
    let mut again = Tenant::new(1000);
    assert_eq!(add(&mut again, &memory(24)), Ok(0), "it was given back");
}

#[test]
fn small_ones_count_as_what_their_mappings_take() {
    let limits = Limits {
        slots: 1 << 12,
        memory: GIB / 8,
        ..Limits::default()
    };
    let mut registry = Registry::new(limits, None);
    let mut tenants: Vec<_> = (0..20).map(|_| Tenant::new(1000)).collect();
    let mut attached = [0, 0];
    for tenant in &mut tenants {
        for _ in 0..8 {
            let slab = Slab::create(1).unwrap();
            let memory = DataMemory::create(1).unwrap();
            let done = [
                attach(&mut registry, tenant, Request::Attach, &slab),
                attach(&mut registry, tenant, Request::Memory, &memory),
            ];
            for (count, done) in attached.iter_mut().zip(done) {
                *count += usize::from(done.is_ok());
            }
        }
    }
    assert_eq!(attached, [16, 4]);
}

/// Whether this process has the file mapped.
fn is_mapped(file: &impl AsFd) -> bool {
    let file = fs::File::from(file.as_fd().try_clone_to_owned().unwrap());
    let inode = file.metadata().unwrap().st_ino().to_string();
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    maps.lines()
        .filter(|line| line.contains("longshore-"))
        .any(|line| line.split_whitespace().nth(4) == Some(&inode))
}

#[test]
fn who_carries_packets_leaves_unmapping_to_the_closer() {
    let (closer, waiting) = Closer::new();
    let mut registry = Registry::new(Limits::default(), Some(closer));
    let mut tenant = Tenant::new(1000);
    let (slab, memory) = (Slab::create(3).unwrap(), DataMemory::create(GIB).unwrap());
    let files = [slab.as_fd(), memory.as_fd()].map(|file| file.try_clone_to_owned().unwrap());
    attach(&mut registry, &mut tenant, Request::Attach, &slab).unwrap();
    attach(&mut registry, &mut tenant, Request::Memory, &memory).unwrap();
    drop((slab, memory));
    drop(tenant);
    assert!(files.iter().all(is_mapped), "they wait for the closer");
    drop(registry);
    waiting.close_all(drop);
    assert!(!files.iter().any(is_mapped));
}
