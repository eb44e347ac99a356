//! See `galley_fuzz::response::contract`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| galley_fuzz::response::contract(data));
