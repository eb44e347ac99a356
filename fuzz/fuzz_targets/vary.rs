//! See `galley_fuzz::head::vary`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| galley_fuzz::head::vary(data));
