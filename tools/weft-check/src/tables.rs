//! What the table says of the functions that are looked at, and values of all ABIs: generated.

use crate::calls::{Function, Kind, Param};

include!(concat!(env!("OUT_DIR"), "/tables.rs"));
