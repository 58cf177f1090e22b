//! Generates headers and the coverage report from the tables of MPI's functions and constants.

use std::fs;
use std::path::Path;

use mpi_table::Table;

use crate::features::Features;
use crate::{Result, workspace};

/// Returns the C headers, which are committed in include/, as names and texts.
fn c_files(table: &Table) -> [(&'static str, String); 2] {
    [
        ("mpi.h", table.header()),
        ("abi/mpi.h", table.standard_header()),
    ]
}

/// Returns Fortran's headers and modules, which only an installation has, as names and texts.
fn fortran_files(table: &Table) -> [(&'static str, String); 10] {
    let standard = table.for_standard_fortran();
    [
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

/// Returns all generated files of an installation's include folder as names and texts.
pub fn files(table: &Table) -> impl Iterator<Item = (&'static str, String)> {
    c_files(table).into_iter().chain(fortran_files(table))
}

/// Writes the C headers to include/ and, for reading, Fortran's files to target/include/. With
/// `check` it only compares the C headers.
pub fn run(check: bool) -> Result {
    let table = Features::default().table()?;
    let committed = workspace::root().join("include");
    if check {
        let is_stale = |name: &str, text: &String| {
            fs::read_to_string(committed.join(name)).map_or(true, |old| old != *text)
        };
        return match c_files(&table)
            .iter()
            .find(|(name, text)| is_stale(name, text))
        {
            Some((name, _)) => Err(format!(
                "include/{name} is stale: run `cargo xtask headers`"
            )),
            None => Ok(()),
        };
    }
    write(&committed, c_files(&table))?;
    write(&workspace::target()?.join("include"), fortran_files(&table))
}

/// Writes the files that differ from those in `folder`.
fn write<const N: usize>(folder: &Path, files: [(&str, String); N]) -> Result {
    for (name, text) in files {
        let path = folder.join(name);
        if fs::read_to_string(&path).is_ok_and(|old| old == text) {
            continue;
        }
        fs::create_dir_all(path.parent().unwrap_or(folder))
            .and_then(|()| fs::write(&path, text))
            .map_err(|error| format!("{}: {error}", path.display()))?;
        println!("{}", path.display());
    }
    Ok(())
}

/// Prints the coverage report.
pub fn coverage(features: &Features) -> Result {
    print!("{}", features.table()?.coverage());
    Ok(())
}
