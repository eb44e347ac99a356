//! See `galley_fuzz::wire::head`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| galley_fuzz::wire::head(data));
