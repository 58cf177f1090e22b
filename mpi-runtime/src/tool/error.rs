//! How functions of the tool interface end.

/// An error of the tool interface: a return code, since there are no error handlers here.
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

/// What a function of the tool interface gives.
pub type Result<T = ()> = std::result::Result<T, Error>;
