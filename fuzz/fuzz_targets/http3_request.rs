//! See `galley_fuzz::http3::request`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| galley_fuzz::http3::request(data));
