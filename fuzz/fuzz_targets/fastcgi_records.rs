//! See `galley_fuzz::fastcgi::records`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| galley_fuzz::fastcgi::records(data));
