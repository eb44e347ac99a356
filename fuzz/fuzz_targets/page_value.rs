//! See `galley_fuzz::files::page_value`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| galley_fuzz::files::page_value(data));
