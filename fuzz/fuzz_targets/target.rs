//! See `galley_fuzz::request::target`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| galley_fuzz::request::target(data));
