//! See `galley_fuzz::response::upstream_answer`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| galley_fuzz::response::upstream_answer(data));
