//! Runs the fuzz target of this crate over its stored inputs.

#[path = "../../../fuzz/src/pci_guest.rs"]
mod pci_guest;
#[path = "../../../fuzz/src/pci_layout.rs"]
mod pci_layout;
#[path = "../../../fuzz/src/pci_machine.rs"]
mod pci_machine;
#[path = "../../../fuzz/src/pci_steps.rs"]
mod pci_steps;
#[path = "../../../fuzz/src/replay.rs"]
mod replay;

#[global_allocator]
static ALLOCATOR: testkit::CountingAllocator = testkit::CountingAllocator;

#[test]
fn stored_inputs_find_nothing() {
    replay::replay("pci_guest", pci_guest::run);
}
