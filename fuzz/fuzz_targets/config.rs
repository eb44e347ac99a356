//! See `galley_fuzz::files::config`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| galley_fuzz::files::config(data));
