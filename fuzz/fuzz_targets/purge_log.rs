//! See `galley_fuzz::files::purge_log`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| galley_fuzz::files::purge_log(data));
