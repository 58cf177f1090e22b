//! MPI errors: a class and an explanation.

use std::fmt;

/// The error classes of MPI-3.1 (section 8.4, table 8.1), without the numbers an ABI gives them.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs, reason = "the names are the standard's, MPI_ERR_*")]
pub enum Class {
    Buffer,
    Count,
    Type,
    Tag,
    Comm,
    Rank,
    Request,
    Root,
    Group,
    Op,
    Topology,
    Dims,
    Arg,
    Unknown,
    Truncate,
    Other,
    Intern,
    InStatus,
    Pending,
    Keyval,
    NoMem,
    Base,
    InfoKey,
    InfoValue,
    InfoNokey,
    Info,
    Spawn,
    Port,
    Service,
    Name,
    Win,
    Size,
    Disp,
    Locktype,
    Assert,
    RmaConflict,
    RmaSync,
    RmaRange,
    RmaAttach,
    RmaShared,
    RmaFlavor,
    File,
    NotSame,
    Amode,
    UnsupportedDatarep,
    UnsupportedOperation,
    NoSuchFile,
    FileExists,
    BadFile,
    Access,
    NoSpace,
    Quota,
    ReadOnly,
    FileInUse,
    DupDatarep,
    Conversion,
    Io,
    /// A session is null or finalized (MPI-4.0).
    Session,
    /// A required process has been aborted (MPI-4.0).
    ProcAborted,
    /// A value does not fit the type of the argument that returns it (MPI-4.1).
    ValueTooLarge,
    /// An error handler is unknown or for another kind of object (MPI-4.1).
    Errhandler,
    /// The Fortran properties of the ABI have already been set (MPI-5.0).
    Abi,
    /// A peer has failed (no class of MPI-3.1; MPICH's ABI has MPIX_ERR_PROC_FAILED).
    ProcFailed,
    /// A receive from any source is pending while a process that might send has failed
    /// (MPIX_ERR_PROC_FAILED_PENDING).
    ProcFailedPending,
    /// A communicator was revoked (MPIX_ERR_REVOKED).
    Revoked,
    /// A stream is null, freed or in use (no class of the standard; MPICH's ABI has
    /// MPIX_ERR_STREAM).
    Stream,
    /// A class or code that the program made with `MPI_Add_error_class` or `MPI_Add_error_code`,
    /// or that a user callback returned, by its number.
    User(i32),
}

/// An error: its class, and a text that says what was wrong and what to do.
///
/// Boxed, so that a `Result` stays one word on hot paths.
#[derive(Clone, PartialEq, Eq)]
pub struct Error(Box<Body>);

#[derive(Clone, PartialEq, Eq)]
struct Body {
    class: Class,
    detail: String,
    origin: Option<u32>,
    lost: Option<u32>,
}

/// The result of anything that can fail with an MPI error.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// Creates an error. `detail` says what was wrong, with values, and what to do about it.
    #[cold]
    pub fn new(class: Class, detail: impl Into<String>) -> Self {
        Error(Box::new(Body {
            class,
            detail: detail.into(),
            origin: None,
            lost: None,
        }))
    }

    /// Replaces the text by `detail` of the present one.
    #[cold]
    pub fn reworded(mut self, detail: impl FnOnce(&str) -> String) -> Self {
        self.0.detail = detail(&self.0.detail);
        self
    }

    /// Replaces the class.
    #[cold]
    pub fn of_class(mut self, class: Class) -> Self {
        self.0.class = class;
        self
    }

    /// Names failed process `peer` as the cause.
    #[cold]
    pub fn by_loss_of(mut self, peer: u32) -> Self {
        self.0.lost = Some(peer);
        self
    }

    /// Returns the failed process that caused the error, if known.
    pub fn lost(&self) -> Option<u32> {
        self.0.lost
    }

    /// Attributes the error to `owner`, the owner of an operation (see `Request::owner`) rather
    /// than of the handle that the call names.
    pub fn on(mut self, owner: u32) -> Self {
        self.0.origin = Some(owner);
        self
    }

    /// Returns the owner of the failed operation, if that is not the handle that the call names.
    pub fn origin(&self) -> Option<u32> {
        self.0.origin
    }

    /// Returns the error class.
    pub fn class(&self) -> Class {
        self.0.class
    }

    /// Returns the text.
    pub fn detail(&self) -> &str {
        &self.0.detail
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.detail)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.0.class, self.0.detail)
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_failed_process_stays_when_class_and_text_change() {
        let error = Error::new(Class::ProcFailedPending, "gone")
            .by_loss_of(3)
            .on(7);
        let error = error
            .reworded(|detail| format!("request 2: {detail}"))
            .of_class(Class::ProcFailed);
        assert_eq!((error.lost(), error.origin()), (Some(3), Some(7)));
        assert_eq!(error.class(), Class::ProcFailed);
        assert_eq!(error.detail(), "request 2: gone");
        // The text alone does not name a failed process.
        assert_eq!(
            Error::new(Class::ProcFailed, "process 3 is lost: gone").lost(),
            None
        );
    }
}
