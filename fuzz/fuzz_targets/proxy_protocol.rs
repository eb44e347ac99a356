//! See `galley_fuzz::client::proxy_protocol`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| galley_fuzz::client::proxy_protocol(data));
