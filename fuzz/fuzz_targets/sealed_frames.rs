//! Runs the target sealed_frames under libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| weft_fuzz::admission::frames(bytes));
