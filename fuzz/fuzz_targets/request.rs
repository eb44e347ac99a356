//! See `galley_fuzz::request::whole`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| galley_fuzz::request::whole(data));
