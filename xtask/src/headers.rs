//! Generates headers and the coverage report from the tables of MPI's functions and constants.

use std::fs;

use mpi_table::Table;

use crate::{Result, workspace};

/// Returns the generated files of include/ as names and texts.
pub fn files(table: &Table) -> [(&'static str, String); 12] {
    let standard = table.for_standard_fortran();
    [
        ("mpi.h", table.header()),
        ("abi/mpi.h", table.standard_header()),
        ("mpif.h", table.mpif_h()),
        ("mpi_f08_types.f90", table.f08_types()),
        ("mpi.f90", table.mpi_f90()),
        ("mpi_f08.F90", table.mpi_f08_f90()),
        ("sentinels.s", table.fortran_sentinels()),
        ("abi/mpif.h", standard.mpif_h()),
        ("abi/mpi_f08_types.f90", standard.f08_types()),
        ("abi/mpi.f90", standard.mpi_f90()),
        ("abi/mpi_f08.F90", standard.mpi_f08_f90()),
        ("abi/sentinels.s", standard.fortran_sentinels()),
    ]
}

/// Writes the headers and Fortran modules of include/, or compares them if `check`.
pub fn run(check: bool) -> Result {
    let folder = workspace::root().join("include");
    for (name, text) in files(&load()?) {
        let path = folder.join(name);
        if fs::read_to_string(&path).is_ok_and(|old| old == text) {
            continue;
        }
        if check {
            return Err(format!(
                "include/{name} is stale: run `cargo xtask headers`"
            ));
        }
        fs::create_dir_all(path.parent().unwrap_or(&folder))
            .and_then(|()| fs::write(&path, text))
            .map_err(|error| format!("{}: {error}", path.display()))?;
        println!("{}", path.display());
    }
    Ok(())
}

/// Prints the coverage report.
pub fn coverage() -> Result {
    print!("{}", load()?.coverage());
    Ok(())
}

fn load() -> Result<Table> {
    Table::load().map_err(|error| format!("mpi-table/{error}"))
}
