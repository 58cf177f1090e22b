//! Tests of datatypes: against a naive reading of the standard, by its own examples, and
//! against another library where one is installed.

mod mpich;
mod naive;
mod properties;
mod standard;
