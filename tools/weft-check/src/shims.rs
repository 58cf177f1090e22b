//! The functions in front of MPI's, which are generated.
#![allow(clippy::missing_safety_doc, non_snake_case)]

use weft_pmpi::Real;

use crate::checker::{after, before};

include!(concat!(env!("OUT_DIR"), "/shims.rs"));
