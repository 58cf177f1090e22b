//! What the library of an ABI keeps for as long as it is loaded, beside what all ABIs have
//! ([`mpi_runtime::lifecycle::library`]): what has functions of the program's in it, or numbers of the ABI.
//!
//! The tool interface keeps its state by itself ([`mpi_runtime::tool`]).
//!
//! Here are the places; what is done with their contents stands in the module of each.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicI32};
use std::sync::{Arc, OnceLock};

use mpi_core::TAG_UB;
use mpi_core::op::Op;
use mpi_runtime::handles::destructors::Kept;
use mpi_runtime::handles::{HandleTable, Type};
use parking_lot::Mutex;

use crate::abi::{
    MPI_ANY_SOURCE, MPI_Datatype, MPI_PROC_NULL, MPI_User_function, MPI_User_function_c,
    MPIX_User_function_x,
};
use crate::grequest_calls::Callbacks;
use crate::keyval::Key;

/// All that there is one of in the library.
pub(crate) struct Library {
    /// Operations that the program made.
    pub ops: HandleTable<UserOp>,
    /// Predefined operations, by index.
    pub predefined_ops: OnceLock<Vec<Op>>,
    /// Attribute keys that the program made.
    pub keyvals: HandleTable<Key>,
    /// The values of `MPI_COMM_WORLD`'s predefined attributes.
    pub world_attributes: WorldAttributes,
    /// The last errors, whose texts can be asked for.
    pub recent_errors: Mutex<Recent>,
    /// Error classes and codes that the program added; none where it has removed one.
    pub added_codes: Mutex<Vec<Option<Added>>>,
    /// The files that have a number in Fortran, by that number less one; 0 stands for none.
    pub fortran_files: Mutex<Vec<usize>>,
    /// Whether the program has told what Fortran's types are, and its truth values.
    pub fortran_told: [AtomicBool; 2],
    /// Classes of generalized requests, by their numbers less one.
    pub grequest_classes: Mutex<Vec<Callbacks>>,
}

/// All of it.
pub(crate) static LIBRARY: Library = Library {
    ops: HandleTable::new(Type::Op),
    predefined_ops: OnceLock::new(),
    keyvals: HandleTable::new(Type::Keyval),
    world_attributes: WorldAttributes {
        tag_ub: AtomicI32::new(TAG_UB),
        host: AtomicI32::new(MPI_PROC_NULL),
        io: AtomicI32::new(MPI_ANY_SOURCE),
        wtime_is_global: OnceLock::new(),
        universe_size: OnceLock::new(),
        appnum: OnceLock::new(),
        lastusedcode: AtomicI32::new(0),
    },
    recent_errors: Mutex::new(Recent {
        next: 1,
        all: false,
        texts: Vec::new(),
    }),
    added_codes: Mutex::new(Vec::new()),
    fortran_files: Mutex::new(Vec::new()),
    fortran_told: [const { AtomicBool::new(false) }; 2],
    grequest_classes: Mutex::new(Vec::new()),
};

/// An operation of the program's.
pub struct UserOp {
    /// The operation.
    pub op: Op,
    /// What it does.
    pub call: Arc<UserCall>,
}

/// A reduction function of the program's.
#[derive(Clone, Copy)]
pub enum UserFunction {
    /// One that is told the number of elements as an int.
    Int(MPI_User_function),
    /// One that is told it as a large count (MPI-4.0 section 6.9.5).
    Large(MPI_User_function_c),
    /// One that is told it as a number, and a state of its own besides (`MPIX_Op_create_x`).
    WithState(MPIX_User_function_x),
}

/// What an operation of the program's does.
pub struct UserCall {
    /// The program's function.
    pub function: UserFunction,
    /// The state that it is given.
    pub state: Option<Kept>,
    /// The handle of the datatype that it was last used with.
    pub datatype: AtomicI32,
    /// Calls the program's function, where that is one of another language's: that which the operation was made with,
    /// or this one.
    pub proxy: OnceLock<(OpProxy, Option<MPI_User_function>)>,
}

/// Calls a reduction function of C++: gets the two buffers, the number of elements, the datatype and
/// the program's function.
pub type OpProxy =
    unsafe extern "C" fn(*const c_void, *mut c_void, c_int, MPI_Datatype, MPI_User_function);

/// The values of predefined attributes (section 8.1.2), which the program gets the addresses of.
pub struct WorldAttributes {
    /// `MPI_TAG_UB`.
    pub tag_ub: AtomicI32,
    /// `MPI_HOST`.
    pub host: AtomicI32,
    /// `MPI_IO`.
    pub io: AtomicI32,
    /// `MPI_WTIME_IS_GLOBAL`, once it has been asked for.
    pub wtime_is_global: OnceLock<AtomicI32>,
    /// `MPI_UNIVERSE_SIZE`, once it has been asked for; none if nobody knows.
    pub universe_size: OnceLock<Option<AtomicI32>>,
    /// `MPI_APPNUM`, the same.
    pub appnum: OnceLock<Option<AtomicI32>>,
    /// `MPI_LASTUSEDCODE`, as it was told last.
    pub lastusedcode: AtomicI32,
}

/// The last errors.
pub struct Recent {
    /// The number of the next one.
    pub next: u32,
    /// Whether all numbers have been given once.
    pub all: bool,
    /// Their numbers and texts; those of number `n` are at `n % KEPT`.
    pub texts: Vec<(u32, String)>,
}

/// An error class or code that the program added.
pub struct Added {
    /// Its class.
    pub class: c_int,
    /// Its text.
    pub text: String,
}
