#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| longshore_fuzz::nvme_psk::run(data));
