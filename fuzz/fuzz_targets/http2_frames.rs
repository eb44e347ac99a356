//! See `galley_fuzz::frames::client_frames`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| galley_fuzz::frames::client_frames(data));
