//! Generates constants and exported functions from the tables, and tells the linker what
//! `libmpi.so.12` exports.

fn main() {
    mpi_table::link::library(mpi_table::Abi::Mpich);
}
