//! Runs the target batch_systems under libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| weft_fuzz::launcher::batch_systems(bytes));
