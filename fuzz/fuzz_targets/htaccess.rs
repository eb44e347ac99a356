//! See `galley_fuzz::files::htaccess`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| galley_fuzz::files::htaccess(data));
