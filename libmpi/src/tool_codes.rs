//! Results of the tool interface in the ABI's numbers.

use std::ffi::c_int;

use mpi_runtime::tool::Error;
use mpi_runtime::tool::Result;
use mpi_runtime::tool::categories::Verbosity;
use mpi_runtime::tool::cvars::Scope;
use mpi_runtime::tool::events::Safety;
use mpi_runtime::tool::pvars::Class;
use mpi_runtime::tool::{Tool, tool};

use crate::abi;

/// Runs a function of the interface with its state, and returns the return code of its result.
///
/// # Errors
/// `MPI_T_ERR_NOT_INITIALIZED`.
pub fn with_tool(run: impl FnOnce(&mut Tool) -> Result) -> c_int {
    code(tool().and_then(|mut tool| run(&mut tool)))
}

/// Returns the return code for a result.
pub fn code(result: Result) -> c_int {
    result.map_or_else(error, |()| abi::MPI_SUCCESS)
}

/// Returns the number of an error.
fn error(error: Error) -> c_int {
    match error {
        Error::Memory => abi::MPI_T_ERR_MEMORY,
        Error::NotInitialized => abi::MPI_T_ERR_NOT_INITIALIZED,
        Error::Invalid => abi::MPI_T_ERR_INVALID,
        Error::InvalidIndex => abi::MPI_T_ERR_INVALID_INDEX,
        Error::InvalidHandle => abi::MPI_T_ERR_INVALID_HANDLE,
        Error::InvalidSession => abi::MPI_T_ERR_INVALID_SESSION,
        Error::InvalidName => abi::MPI_T_ERR_INVALID_NAME,
        Error::CvarSetNever => abi::MPI_T_ERR_CVAR_SET_NEVER,
        Error::PvarNoStartstop => abi::MPI_T_ERR_PVAR_NO_STARTSTOP,
        Error::PvarNoWrite => abi::MPI_T_ERR_PVAR_NO_WRITE,
        Error::PvarNoAtomic => abi::MPI_T_ERR_PVAR_NO_ATOMIC,
    }
}

/// Returns the number of a verbosity.
pub fn verbosity(verbosity: Verbosity) -> c_int {
    match verbosity {
        Verbosity::UserBasic => abi::MPI_T_VERBOSITY_USER_BASIC,
        Verbosity::UserDetail => abi::MPI_T_VERBOSITY_USER_DETAIL,
        Verbosity::TunerBasic => abi::MPI_T_VERBOSITY_TUNER_BASIC,
        Verbosity::TunerDetail => abi::MPI_T_VERBOSITY_TUNER_DETAIL,
    }
}

/// Returns the number of a scope.
pub fn scope(scope: Scope) -> c_int {
    match scope {
        Scope::ReadOnly => abi::MPI_T_SCOPE_READONLY,
        Scope::Local => abi::MPI_T_SCOPE_LOCAL,
        Scope::AllEq => abi::MPI_T_SCOPE_ALL_EQ,
    }
}

/// Returns the number of a class of performance variables.
pub fn class(class: Class) -> c_int {
    match class {
        Class::Level => abi::MPI_T_PVAR_CLASS_LEVEL,
        Class::Peak => abi::MPI_T_PVAR_CLASS_HIGHWATERMARK,
        Class::Counter => abi::MPI_T_PVAR_CLASS_COUNTER,
        Class::Sum => abi::MPI_T_PVAR_CLASS_AGGREGATE,
    }
}

/// Returns the safety level with this number.
///
/// # Errors
/// `MPI_T_ERR_INVALID`.
pub fn safety(number: abi::MPI_T_cb_safety) -> Result<Safety> {
    match number {
        abi::MPI_T_CB_REQUIRE_NONE => Ok(Safety::None),
        abi::MPI_T_CB_REQUIRE_MPI_RESTRICTED => Ok(Safety::MpiRestricted),
        abi::MPI_T_CB_REQUIRE_THREAD_SAFE => Ok(Safety::ThreadSafe),
        abi::MPI_T_CB_REQUIRE_ASYNC_SIGNAL_SAFE => Ok(Safety::AsyncSignalSafe),
        _ => Err(Error::Invalid),
    }
}
