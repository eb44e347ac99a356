//! See `galley_fuzz::import::import`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| galley_fuzz::import::import(data));
