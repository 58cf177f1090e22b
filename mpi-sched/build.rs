//! Generates the enums of collective algorithms, their names and their dispatch from the table.

use std::path::PathBuf;
use std::{env, fs};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let table = mpi_table::Collectives::load();
    let table = table.unwrap_or_else(|error| panic!("mpi-table/{error}"));
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let path = out.join("collectives.rs");
    fs::write(&path, table.rust()).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}
