//! Runs the target top under libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| weft_fuzz::top::datagrams(bytes));
