//! `mpiexec`, the program.

#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    mpiexec::main()
}
