#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| longshore_fuzz::tcp_endpoint::run(data));
