//! See `galley_fuzz::head::no_vary_search`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| galley_fuzz::head::no_vary_search(data));
