//! See `galley_object_cache::fuzzing::handover`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| galley_object_cache::fuzzing::handover(data));
