#![no_main]

#[global_allocator]
static ALLOCATOR: testkit::CountingAllocator = testkit::CountingAllocator;

libfuzzer_sys::fuzz_target!(|data: &[u8]| longshore_fuzz::pci_guest::run(data));
