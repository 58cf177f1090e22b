//! Runs the target introduction under libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| mpi_comm::dynamic::fuzzing::introduction(bytes));
