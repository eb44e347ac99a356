//! See `galley_fuzz::request::cookie`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| galley_fuzz::request::cookie(data));
