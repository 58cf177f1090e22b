//! Runs the target datatypes under libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| weft_fuzz::datatypes::run(bytes));
