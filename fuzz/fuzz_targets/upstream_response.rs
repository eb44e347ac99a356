//! See `galley_fuzz::response::upstream_response`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| galley_fuzz::response::upstream_response(data));
