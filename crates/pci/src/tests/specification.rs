//! `docs/device.md` says where the registers are.

use std::path::Path;

use crate::registers::PLACES;

#[test]
fn the_page_has_the_registers_where_they_are() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/device.md");
    let page = std::fs::read_to_string(page).expect("the page");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| 0x"));
    let told: Vec<_> = rows
        .map(|row| {
            let mut cells = row.split('|').map(str::trim);
            let mut cell = || cells.next().expect("a cell");
            let offset = u64::from_str_radix(cell(), 16).expect("an offset");
            let bytes: u64 = cell().parse().expect("bytes");
            (cell().trim_matches('`').to_owned(), offset, bytes)
        })
        .collect();
    let are = PLACES.map(|(name, offset, bytes)| (name.to_owned(), offset, bytes));
    assert_eq!(told, are);
}
