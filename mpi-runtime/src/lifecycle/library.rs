//! What is kept for as long as the library is loaded: objects that may be made before `MPI_Init` or
//! used after `MPI_Finalize`, and what is told once. (What there is only while MPI is up belongs to
//! the [`Runtime`](crate::lifecycle::runtime::Runtime).)
//!
//! Here are the places; what is done with their contents stands in the module of each.

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

use mpi_core::group::Group;
use mpi_core::info::Info;
use mpi_io::Conversions;
use parking_lot::Mutex;

use crate::handles::handler;
use crate::handles::predefined::MPI_Datatype;
use crate::handles::session_object::SessionObject;
use crate::handles::type_object::TypeObject;
use crate::handles::{HandleTable, Type};

/// All that there is one of.
pub struct Library {
    /// Datatypes made at run time, and before them the pairs with gaps.
    pub datatypes: OnceLock<HandleTable<TypeObject>>,
    /// Predefined datatypes, by the low byte of their handles.
    pub predefined_datatypes: OnceLock<Vec<Option<TypeObject>>>,
    /// The parameterised Fortran types that have a handle: the standard wants the same handle for
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
    /// The addresses of the program's error handlers that are not functions of C, and how they are
    /// called.
    pub errhandler_callers: Mutex<Vec<(usize, handler::Caller)>>,
    /// Rank and number of ranks in `MPI_COMM_WORLD`, once they are known.
    pub rank_and_size: OnceLock<(usize, usize)>,
    /// The sessions that groups come from, where they come from any.
    pub group_sessions: Mutex<BTreeMap<c_int, c_int>>,
    /// Whether there has been one in it.
    pub has_group_sessions: AtomicBool,
    /// Sessions that the program opened.
    pub sessions: HandleTable<SessionObject>,
    /// Data representations that the program registered.
    pub datareps: Mutex<Vec<Datarep>>,
    /// What is open.
    pub users: Mutex<Users>,
    /// Whom to tell when this process ends the job.
    pub launcher: OnceLock<Arc<pmi::Client>>,
}

/// All of it.
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
    datareps: Mutex::new(Vec::new()),
    users: Mutex::new(Users {
        world: false,
        sessions: 0,
    }),
    launcher: OnceLock::new(),
};

/// A data representation of the program's.
pub struct Datarep {
    /// Its name.
    pub name: String,
    /// How data is converted.
    pub functions: Arc<dyn Conversions>,
}

/// What MPI is up for.
pub struct Users {
    /// Whether the world model is open.
    pub world: bool,
    /// How many sessions are.
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
