//! The names of the functions that are counted, which are generated.

include!(concat!(env!("OUT_DIR"), "/names.rs"));
