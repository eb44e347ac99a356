//! See `galley_fuzz::frames::header_blocks`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| galley_fuzz::frames::header_blocks(data));
