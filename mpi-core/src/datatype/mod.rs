//! Datatypes (MPI-3.1 chapter 4).

pub mod predefined;

pub use predefined::{Group, Kind, Predefined};
