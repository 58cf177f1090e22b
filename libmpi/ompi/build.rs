//! Build script of Open MPI's ABI: generates its constants and functions, the objects whose addresses
//! are handles, and the linker's version script of `libmpi.so.40`.

fn main() {
    println!("cargo::rustc-cfg=openmpi_abi");
    println!("cargo::rustc-cfg=pointer_abi");
    mpi_table::link::library(mpi_table::Abi::OpenMpi);
}
