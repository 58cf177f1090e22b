//! Runs the target pmi_environment under libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| weft_fuzz::pmi::environment(bytes));
