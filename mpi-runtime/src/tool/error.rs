//! Errors of the tool interface.

/// An error of the tool interface: a return code, since the interface has no error handlers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Error {
    /// `MPI_T_ERR_MEMORY`.
    Memory,
    /// `MPI_T_ERR_NOT_INITIALIZED`.
    NotInitialized,
    /// `MPI_T_ERR_INVALID`.
    Invalid,
    /// `MPI_T_ERR_INVALID_INDEX`.
    InvalidIndex,
    /// `MPI_T_ERR_INVALID_HANDLE`.
    InvalidHandle,
    /// `MPI_T_ERR_INVALID_SESSION`.
    InvalidSession,
    /// `MPI_T_ERR_INVALID_NAME`.
    InvalidName,
    /// `MPI_T_ERR_CVAR_SET_NEVER`.
    CvarSetNever,
    /// `MPI_T_ERR_PVAR_NO_STARTSTOP`.
    PvarNoStartstop,
    /// `MPI_T_ERR_PVAR_NO_WRITE`.
    PvarNoWrite,
    /// `MPI_T_ERR_PVAR_NO_ATOMIC`.
    PvarNoAtomic,
}

/// The result of a function of the tool interface.
pub type Result<T = ()> = std::result::Result<T, Error>;

/// An argument that cannot be converted is `MPI_T_ERR_INVALID`.
impl From<mpi_core::Error> for Error {
    fn from(_: mpi_core::Error) -> Error {
        Error::Invalid
    }
}
