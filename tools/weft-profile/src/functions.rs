//! The functions in front of MPI's, which are generated.
#![allow(clippy::missing_safety_doc, non_snake_case)]

use crate::record::{enter, leave};
use crate::sizes;
use crate::watch::{self, Facts};
use weft_pmpi::Real;

include!(concat!(env!("OUT_DIR"), "/shims.rs"));
