//! See `galley_fuzz::dns::response`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| galley_fuzz::dns::response(data));
