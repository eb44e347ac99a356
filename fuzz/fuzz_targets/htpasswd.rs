//! See `galley_fuzz::client::htpasswd`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| galley_fuzz::client::htpasswd(data));
