//! See `galley_fuzz::client::xmlrpc`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| galley_fuzz::client::xmlrpc(data));
