//! See `galley_fuzz::files::disk_entry`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| galley_fuzz::files::disk_entry(data));
