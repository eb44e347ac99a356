//! See `galley_fuzz::request::form`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| galley_fuzz::request::form(data));
