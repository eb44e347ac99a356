//! See `galley_fuzz::head::fragments`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| galley_fuzz::head::fragments(data));
