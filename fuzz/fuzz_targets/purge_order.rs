//! See `galley_fuzz::request::purge_order`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| galley_fuzz::request::purge_order(data));
