#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| longshore_fuzz::tls_messages::run(data));
