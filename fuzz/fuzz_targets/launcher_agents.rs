//! Runs the target launcher_agents under libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| weft_fuzz::launcher::agents(bytes));
