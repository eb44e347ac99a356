//! See `galley_fuzz::head::tags`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| galley_fuzz::head::tags(data));
