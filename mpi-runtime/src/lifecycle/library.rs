//! State that lives as long as the library is loaded.
//!
//! Holds objects that may be made before `MPI_Init` or used after `MPI_Finalize`, and values that
//! are set once. State that exists only while MPI is initialized belongs to the
//! [`Runtime`](crate::lifecycle::runtime::Runtime). The module of each object has the functions for
//! it.

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

use mpi_core::group::Group;
use mpi_core::info::Info;
use parking_lot::Mutex;

use crate::handles::handler;
use crate::handles::predefined::MPI_Datatype;
use crate::handles::session_object::SessionObject;
use crate::handles::type_object::TypeObject;
use crate::handles::{HandleTable, Type};

/// The state of the library, one per process.
pub struct Library {
    /// Datatypes made at run time; the pairs with gaps take the first slots.
    pub datatypes: OnceLock<HandleTable<TypeObject>>,
    /// Predefined datatypes, by the low byte of their handles.
    pub predefined_datatypes: OnceLock<Vec<Option<TypeObject>>>,
    /// Parameterised Fortran types with their handles; the standard requires the same handle for
    /// the same arguments.
    pub fortran_types: Mutex<Vec<(F90, MPI_Datatype)>>,
    /// Groups that the program made.
    pub groups: HandleTable<Group>,
    /// `MPI_GROUP_EMPTY`.
    pub empty_group: OnceLock<Group>,
    /// Info objects that the program made.
    pub infos: HandleTable<Info>,
    /// `MPI_INFO_ENV`.
    pub env_info: OnceLock<Info>,
    /// Error handlers that the program made.
    pub errhandlers: HandleTable<handler::Made>,
    /// Addresses of the program's error handlers that are not C functions, with their calling
    /// convention.
    pub errhandler_callers: Mutex<Vec<(usize, handler::Caller)>>,
    /// Rank and number of ranks in `MPI_COMM_WORLD`, once they are known.
    pub rank_and_size: OnceLock<(usize, usize)>,
    /// The session that a group was made from, for groups made from one.
    pub group_sessions: Mutex<BTreeMap<c_int, c_int>>,
    /// Whether `group_sessions` has ever had an entry.
    pub has_group_sessions: AtomicBool,
    /// Sessions that the program opened.
    pub sessions: HandleTable<SessionObject>,
    /// The open world model and sessions.
    pub users: Mutex<Users>,
    /// The launcher that is notified when this process ends the job.
    pub launcher: OnceLock<Arc<pmi::Client>>,
}

/// The library's state.
pub static LIBRARY: Library = Library {
    datatypes: OnceLock::new(),
    predefined_datatypes: OnceLock::new(),
    fortran_types: Mutex::new(Vec::new()),
    groups: HandleTable::new(Type::Group),
    empty_group: OnceLock::new(),
    infos: HandleTable::new(Type::Info),
    env_info: OnceLock::new(),
    errhandlers: HandleTable::new(Type::Errhandler),
    errhandler_callers: Mutex::new(Vec::new()),
    rank_and_size: OnceLock::new(),
    group_sessions: Mutex::new(BTreeMap::new()),
    has_group_sessions: AtomicBool::new(false),
    sessions: HandleTable::new(Type::Session),
    users: Mutex::new(Users {
        world: false,
        sessions: 0,
    }),
    launcher: OnceLock::new(),
};

/// The users that keep MPI initialized.
pub struct Users {
    /// Whether the world model is open.
    pub world: bool,
    /// Number of open sessions.
    pub sessions: usize,
}

/// A parameterised Fortran type, by its arguments.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum F90 {
    /// `MPI_Type_create_f90_real`.
    Real(Option<i64>, Option<i64>),
    /// `MPI_Type_create_f90_complex`.
    Complex(Option<i64>, Option<i64>),
    /// `MPI_Type_create_f90_integer`.
    Integer(i64),
}
