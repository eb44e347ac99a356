//! See `galley_fuzz::head::cache_control`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| galley_fuzz::head::cache_control(data));
