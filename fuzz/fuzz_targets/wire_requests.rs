//! See `galley_fuzz::wire::requests`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| galley_fuzz::wire::requests(data));
