//! State of an ABI's library that lives as long as it is loaded: objects with functions of the
//! program, or with ABI-specific numbers.
//!
//! Other state is in [`mpi_runtime::lifecycle::library`] and, for the tool interface, in
//! [`mpi_runtime::tool`]. The module of each object has the functions for it.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicI32};
use std::sync::{Arc, OnceLock};

use mpi_core::TAG_UB;
use mpi_core::op::Op;
use mpi_runtime::handles::destructors::OwnedState;
use mpi_runtime::handles::{HandleTable, Type};
use parking_lot::Mutex;

use crate::abi::{
    MPI_ANY_SOURCE, MPI_Datatype, MPI_PROC_NULL, MPI_User_function, MPI_User_function_c,
    MPIX_User_function_x,
};
use crate::grequest_calls::Callbacks;
use crate::keyval::Key;

/// The state of the library, one per process.
pub(crate) struct Library {
    /// Operations that the program made.
    pub ops: HandleTable<UserOp>,
    /// Predefined operations, by index.
    pub predefined_ops: OnceLock<Vec<Op>>,
    /// Attribute keys that the program made.
    pub keyvals: HandleTable<Key>,
    /// The values of `MPI_COMM_WORLD`'s predefined attributes.
    pub world_attributes: WorldAttributes,
    /// The last errors' texts.
    pub recent_errors: Mutex<Recent>,
    /// Error classes and codes that the program added; `None` for removed ones.
    pub added_codes: Mutex<Vec<Option<Added>>>,
    /// The files that have a Fortran number, by that number less one; 0 for none.
    pub fortran_files: Mutex<Vec<usize>>,
    /// Whether the program has set the sizes of Fortran's types, and its logical values.
    pub fortran_set: [AtomicBool; 2],
    /// Classes of generalized requests, by their numbers less one.
    pub grequest_classes: Mutex<Vec<Callbacks>>,
}

/// The library's state.
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
    fortran_set: [const { AtomicBool::new(false) }; 2],
    grequest_classes: Mutex::new(Vec::new()),
};

/// A reduction operation of the program.
pub struct UserOp {
    /// The operation.
    pub op: Op,
    /// The program's function.
    pub call: Arc<UserCall>,
}

/// A reduction function of the program.
#[derive(Clone, Copy)]
pub enum UserFunction {
    /// A function that takes the number of elements as `int`.
    Int(MPI_User_function),
    /// A function that takes the number of elements as `MPI_Count` (MPI-4.0 section 6.9.5).
    Large(MPI_User_function_c),
    /// A function that takes the number of elements by value, and a state (`MPIX_Op_create_x`).
    WithState(MPIX_User_function_x),
}

/// A reduction function with its arguments.
pub struct UserCall {
    /// The program's function.
    pub function: UserFunction,
    /// The state that it is passed.
    pub state: Option<OwnedState>,
    /// The handle of the datatype that it was last called with.
    pub datatype: AtomicI32,
    /// The proxy of a function in another language, with the function to pass to it in place of the
    /// operation's, if any.
    pub proxy: OnceLock<(OpProxy, Option<MPI_User_function>)>,
}

/// Calls a C++ reduction function. Takes the two buffers, the number of elements, the datatype and
/// the program's function.
pub type OpProxy =
    unsafe extern "C" fn(*const c_void, *mut c_void, c_int, MPI_Datatype, MPI_User_function);

/// The values of predefined attributes (section 8.1.2), whose addresses the program gets.
pub struct WorldAttributes {
    /// `MPI_TAG_UB`.
    pub tag_ub: AtomicI32,
    /// `MPI_HOST`.
    pub host: AtomicI32,
    /// `MPI_IO`.
    pub io: AtomicI32,
    /// `MPI_WTIME_IS_GLOBAL`, once it was asked for.
    pub wtime_is_global: OnceLock<AtomicI32>,
    /// `MPI_UNIVERSE_SIZE`, once it was asked for; `None` if it is unknown.
    pub universe_size: OnceLock<Option<AtomicI32>>,
    /// `MPI_APPNUM`, once it was asked for; `None` if it is unknown.
    pub appnum: OnceLock<Option<AtomicI32>>,
    /// `MPI_LASTUSEDCODE`, as it was last returned.
    pub lastusedcode: AtomicI32,
}

/// The last errors.
pub struct Recent {
    /// The number of the next error.
    pub next: u32,
    /// Whether all numbers have been used once.
    pub all: bool,
    /// Numbers and texts of errors; those of number `n` are at `n % KEPT`.
    pub texts: Vec<(u32, String)>,
}

/// An error class or code that the program added.
pub struct Added {
    /// Its class.
    pub class: c_int,
    /// Its text.
    pub text: String,
}
