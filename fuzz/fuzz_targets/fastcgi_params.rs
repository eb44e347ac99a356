//! See `galley_fuzz::fastcgi::params`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| galley_fuzz::fastcgi::params(data));
