#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| longshore_fuzz::l5p_http::run(data));
