#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| longshore_fuzz::nic_nvme_receive::run(data));
