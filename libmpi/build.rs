//! Generates constants and exported functions from the tables, and tells the linker what
//! `libmpi.so.12` exports.

use std::path::PathBuf;
use std::{env, fs};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let table = mpi_table::Table::for_package();
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let write = |name: &str, text: String| -> PathBuf {
        let path = out.join(name);
        fs::write(&path, text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        path
    };
    let constants = table.library_constants(mpi_table::Abi::Mpich);
    let wrong = |error| panic!("mpi-table/{error}");
    write("constants.rs", constants.unwrap_or_else(wrong));
    write("outward.rs", table.outward(mpi_table::Abi::Mpich));
    write("shims.rs", table.shims());
    let script = write("exports.map", table.version_script());

    // rustc hides symbols that it doesn't know, and it doesn't know the weak MPI_ symbols, which
    // assembler makes. A second, anonymous version script exports them.
    mpi_table::link::use_lld();
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libmpi.so.12");
    println!(
        "cargo::rustc-cdylib-link-arg=-Wl,--version-script={}",
        script.display()
    );
}
