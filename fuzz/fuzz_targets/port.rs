//! Runs the target port under libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| mpi_runtime::fuzzing::port(bytes));
