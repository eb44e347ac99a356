//! See `galley_fuzz::request::purge_request`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| galley_fuzz::request::purge_request(data));
