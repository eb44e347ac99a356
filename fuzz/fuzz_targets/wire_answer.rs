//! See `galley_fuzz::wire::answer`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| galley_fuzz::wire::answer(data));
