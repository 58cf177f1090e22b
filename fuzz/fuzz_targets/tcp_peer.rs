//! Runs the target tcp_peer under libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| weft_fuzz::tcp::peer(bytes));
