//! See `galley_fuzz::privileged::command`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| galley_fuzz::privileged::command(data));
