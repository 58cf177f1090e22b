//! Runs the target pmi_client under libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| weft_fuzz::pmi::client(bytes));
