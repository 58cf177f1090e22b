//! Runs the target launcher_frames under libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| weft_fuzz::launcher::frames(bytes));
