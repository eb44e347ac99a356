//! See `galley_fuzz::files::path`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| galley_fuzz::files::path(data));
