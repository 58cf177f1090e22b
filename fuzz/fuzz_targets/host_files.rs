//! Runs the target host_files under libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| weft_fuzz::launcher::host_files(bytes));
