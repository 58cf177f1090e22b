//! Runs the target command_line under libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| weft_fuzz::launcher::command_line(bytes));
