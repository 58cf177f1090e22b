//! Runs the target tcp_stranger under libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| weft_fuzz::tcp::stranger(bytes));
