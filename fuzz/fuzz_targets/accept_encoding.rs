//! See `galley_fuzz::head::accept_encoding`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| galley_fuzz::head::accept_encoding(data));
