//! See `galley_fuzz::esi::esi`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| galley_fuzz::esi::esi(data));
