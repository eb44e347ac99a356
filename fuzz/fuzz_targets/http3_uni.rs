//! See `galley_fuzz::http3::uni`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| galley_fuzz::http3::uni(data));
