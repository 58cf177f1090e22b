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
pub mod man;
pub mod openmpi;
pub mod report;
pub mod rust;
pub mod shims;
mod source;
pub mod standard;
pub mod standard_shims;

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
}
