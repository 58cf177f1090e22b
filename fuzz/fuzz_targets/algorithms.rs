//! Runs the target algorithms under libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| weft_fuzz::settings::algorithms(bytes));
