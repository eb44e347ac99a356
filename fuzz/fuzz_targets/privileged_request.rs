//! See `galley_fuzz::privileged::commands`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| galley_fuzz::privileged::commands(data));
