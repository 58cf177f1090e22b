//! Cargo features of the libraries: which functions and transports are built.

use std::path::PathBuf;
use std::process::Command;

use clap::Args;
use mpi_table::Table;

use crate::{Result, workspace};

/// Cargo's options of these names.
#[derive(Args, Clone, Default)]
pub struct Features {
    /// Leave out all that belongs to a Cargo feature: transports but shared memory and TCP, files,
    /// MPI_T, recovery from failed processes.
    #[arg(long)]
    pub no_default_features: bool,
    /// Features to keep all the same: verbs, ofi, ucx, io, tool, fault-tolerance.
    #[arg(long, value_delimiter = ',', requires = "no_default_features")]
    pub features: Vec<String>,
}

impl Features {
    /// Returns the smallest set.
    pub fn none() -> Features {
        Features {
            no_default_features: true,
            features: Vec::new(),
        }
    }

    /// Adds the options to a command of cargo.
    pub fn pass(&self, command: &mut Command) {
        if self.no_default_features {
            command.args(["--no-default-features", "--features"]);
            command.arg(self.features.join(","));
        }
    }

    /// Returns the target folder: with fewer features another one, since cargo gives a library the same
    /// name with any features, and takes it for up to date.
    pub fn target(&self) -> Result<PathBuf> {
        let target = workspace::target()?;
        Ok(match self.no_default_features {
            true => target.join("features"),
            false => target,
        })
    }

    /// Returns the tables of MPI without the functions that are left out.
    pub fn table(&self) -> Result<Table> {
        let table = match self.no_default_features {
            true => Table::with_features(&self.features.join(",")),
            false => Table::load(),
        };
        table.map_err(|error| format!("mpi-table/{error}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_feature_of_a_function_is_one_of_each_library() {
        let table = Features::default().table().unwrap();
        let names = table.functions.features();
        assert!(names.contains("io") && names.contains("tool"), "{names:?}");
        for library in ["libmpi", "libmpi/abi", "libmpi/ompi"] {
            let manifest = workspace::root().join(library).join("Cargo.toml");
            let text = std::fs::read_to_string(manifest).unwrap();
            for name in &names {
                assert!(text.contains(&format!("\n{name} = [")), "{library}: {name}");
            }
        }
    }

    #[test]
    fn the_smallest_set_leaves_functions_out() {
        let all = Features::default().table().unwrap().coverage();
        let few = Features::none().table().unwrap().coverage();
        assert!(!all.contains("left out"), "{all}");
        assert!(
            few.contains("of the feature io") && few.contains("of the feature tool"),
            "{few}"
        );
        assert!(
            !Features::none()
                .table()
                .unwrap()
                .header()
                .contains("MPI_File_open")
        );
    }
}
