//! What the tables of MPI's functions and constants give: headers and the coverage report.

use std::fs;

use mpi_table::Table;

use crate::{Result, workspace};

/// Writes `include/mpi.h`, or with `check` compares.
pub fn run(check: bool) -> Result {
    let path = workspace::root().join("include").join("mpi.h");
    let text = load()?.header();
    if fs::read_to_string(&path).is_ok_and(|old| old == text) {
        return Ok(());
    }
    if check {
        return Err("include/mpi.h is not what the tables give: run `cargo xtask headers`".into());
    }
    fs::create_dir_all(workspace::root().join("include"))
        .and_then(|()| fs::write(&path, text))
        .map_err(|error| format!("{}: {error}", path.display()))?;
    println!("{}", path.display());
    Ok(())
}

/// Prints the coverage report.
pub fn coverage() -> Result {
    print!("{}", load()?.coverage());
    Ok(())
}

fn load() -> Result<Table> {
    Table::load().map_err(|error| format!("libmpi/table/{error}"))
}
