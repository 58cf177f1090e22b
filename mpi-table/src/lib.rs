//! The tables of all MPI functions, constants and algorithms of collectives, and the generators of C
//! headers, Rust constants, exported symbols, Fortran and C++ bindings, manual pages, a coverage
//! report, and the selection of collective algorithms.
//!
//! `functions.mpi`, `constants.mpi`, `abi_constants.mpi`, `openmpi_constants.mpi` and
//! `collectives.mpi` explain their formats in their first lines, [`description`] that of the texts
//! about functions in `descriptions/`. To add a function to the library,
//! name a Rust function under `libmpi/src/api`, a new one or one of its family, after `->` behind
//! its prototype in `functions.mpi`.

pub mod collectives;
pub mod constant;
mod conversions;
pub mod ctype;
mod cxx;
pub mod description;
pub mod fortran;
pub mod function;
pub mod header;
pub mod large;
pub mod link;
pub mod man;
pub mod openmpi;
pub mod report;
pub mod rust;
pub mod shims;
mod source;
pub mod standard;
pub mod standard_shims;

use std::env;

pub use collectives::Collectives;
pub use constant::{Constants, Group, Item, Value};
pub use ctype::CType;
pub use description::Description;
pub use function::{Chapter, Direction, Form, Function, Functions, Kind, Param, Style};
pub use openmpi::OpenMpi;
pub use source::ParseError;
pub use standard::{Abi, Standard};

/// The text of the function table.
pub const FUNCTIONS: &str = include_str!("../functions.mpi");
/// The text of the constant table.
pub const CONSTANTS: &str = include_str!("../constants.mpi");
/// The text of the table of the standard ABI.
pub const STANDARD: &str = include_str!("../abi_constants.mpi");

/// The text of the table of collectives.
pub const COLLECTIVES: &str = include_str!("../collectives.mpi");

/// The text of the table of Open MPI's ABI.
pub const OPENMPI: &str = include_str!("../openmpi_constants.mpi");

/// The tables, parsed.
#[derive(Debug)]
pub struct Table {
    /// The functions.
    pub functions: Functions,
    /// Types, constants and variables.
    pub constants: Constants,
    /// The differences of the standard ABI.
    pub standard: Standard,
    /// The differences of Open MPI's ABI.
    pub openmpi: OpenMpi,
    /// The ABI of the values in `constants`.
    pub abi: Abi,
}

impl Table {
    /// Parses the tables of this library.
    ///
    /// # Errors
    /// The first mistake in one of them, with file and line.
    pub fn load() -> Result<Self, ParseError> {
        let mut functions = Functions::parse("functions.mpi", FUNCTIONS)?;
        description::describe(&mut functions)?;
        Ok(Table {
            functions,
            constants: Constants::parse("constants.mpi", CONSTANTS)?,
            standard: Standard::parse("abi_constants.mpi", STANDARD)?,
            openmpi: OpenMpi::parse("openmpi_constants.mpi", OPENMPI)?,
            abi: Abi::Mpich,
        })
    }

    /// Parses the tables in a build script. Functions of Cargo features that are off for its package
    /// are missing. Tests of the package find the features in `WEFT_FEATURES`, see [`Table::with_features`].
    ///
    /// # Panics
    /// There is a mistake in a table.
    pub fn for_package() -> Self {
        let mut table = Table::load().unwrap_or_else(|error| panic!("mpi-table/{error}"));
        let is_on = |name: &&str| {
            let variable = name.to_uppercase().replace('-', "_");
            env::var_os(format!("CARGO_FEATURE_{variable}")).is_some()
        };
        let on: Vec<&str> = table
            .functions
            .features()
            .into_iter()
            .filter(is_on)
            .collect();
        let on = on.join(",");
        println!("cargo::rustc-env=WEFT_FEATURES={on}");
        table
            .functions
            .keep_features(|name| on.split(',').any(|one| one == name));
        table
    }

    /// Parses the tables with the functions of these Cargo features, separated by commas.
    ///
    /// # Errors
    /// The first mistake in one of them, with file and line.
    pub fn with_features(on: &str) -> Result<Self, ParseError> {
        let mut table = Table::load()?;
        table
            .functions
            .keep_features(|name| on.split(',').any(|one| one == name));
        Ok(table)
    }
}
