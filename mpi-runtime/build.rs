//! Generates the handles from the table of constants.

use std::path::PathBuf;
use std::{env, fs};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let table = mpi_table::Table::load().unwrap_or_else(|error| panic!("mpi-table/{error}"));
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let path = out.join("handles.rs");
    fs::write(&path, table.handle_constants())
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}
