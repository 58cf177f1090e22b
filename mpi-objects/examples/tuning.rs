//! Prints what belongs in `docs/tuning.md`; `cargo xtask docs` puts it there.

fn main() {
    print!("{}", mpi_objects::tuning::document());
}
