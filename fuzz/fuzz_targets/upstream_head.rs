//! See `galley_fuzz::response::upstream_head`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| galley_fuzz::response::upstream_head(data));
