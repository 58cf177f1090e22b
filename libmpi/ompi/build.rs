//! Build script of Open MPI's ABI. As libmpi's, with other constants and functions: generates them,
//! the objects whose addresses are handles, and the linker's version script of `libmpi.so.40`.

use std::path::PathBuf;
use std::{env, fs};

use mpi_table::{Abi, Table};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cfg=openmpi_abi");
    println!("cargo::rustc-cfg=pointer_abi");
    let table = Table::for_package();
    let wrong = |error: String| -> String { panic!("mpi-table/{error}") };
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let write = |name: &str, text: String| -> PathBuf {
        let path = out.join(name);
        fs::write(&path, text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        path
    };
    let constants = table.library_constants(Abi::OpenMpi);
    write("constants.rs", constants.unwrap_or_else(wrong));
    write("outward.rs", table.outward(Abi::OpenMpi));
    write("shims.rs", table.openmpi_shims().unwrap_or_else(wrong));
    let script = write("exports.map", table.openmpi_version_script());

    mpi_table::link::use_lld();
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libmpi.so.40");
    println!(
        "cargo::rustc-cdylib-link-arg=-Wl,--version-script={}",
        script.display()
    );
}
