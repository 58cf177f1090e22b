//! Build script of the standard ABI's library: generates its constants and functions, and the
//! linker's version script of `libmpi_abi.so.1`.

fn main() {
    println!("cargo::rustc-cfg=standard_abi");
    println!("cargo::rustc-cfg=pointer_abi");
    mpi_table::link::library(mpi_table::Abi::Standard);
}
