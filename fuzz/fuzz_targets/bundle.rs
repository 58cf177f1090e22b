//! Runs the target bundle under libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| weft_fuzz::datatypes::bundle(bytes));
