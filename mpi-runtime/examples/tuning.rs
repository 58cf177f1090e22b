//! Prints what belongs in `docs/tuning.md`; `cargo xtask docs` puts it there.

fn main() {
    print!("{}", mpi_runtime::settings::document::document());
}
