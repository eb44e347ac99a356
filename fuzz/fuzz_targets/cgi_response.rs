//! See `galley_fuzz::fastcgi::cgi_response`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| galley_fuzz::fastcgi::cgi_response(data));
