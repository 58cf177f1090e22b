//! Errors of the operating system as errors of MPI (MPI-3.1 section 13.7).

use std::io;
use std::path::Path;

use mpi_types::{Class, Error};

/// The classes of file functions' errors, by their numbers in messages between members.
const CLASSES: &[Class] = &[
    Class::Other,
    Class::NoSuchFile,
    Class::FileExists,
    Class::Access,
    Class::NoSpace,
    Class::Quota,
    Class::ReadOnly,
    Class::BadFile,
    Class::FileInUse,
    Class::Io,
    Class::Amode,
    Class::NotSame,
    Class::File,
    Class::Arg,
    Class::Count,
    Class::Type,
    Class::Buffer,
    Class::NoMem,
    Class::UnsupportedDatarep,
    Class::UnsupportedOperation,
    Class::Conversion,
    Class::Info,
    Class::Intern,
    Class::DupDatarep,
    Class::ProcFailed,
    Class::InfoValue,
];

/// Returns the number of a class, above 0.
pub(crate) fn number(class: Class) -> u64 {
    let found = CLASSES.iter().position(|one| *one == class);
    found.unwrap_or(0) as u64 + 1
}

/// Returns the class of a number.
pub(crate) fn class(number: u64) -> Class {
    let index = usize::try_from(number).unwrap_or(0).saturating_sub(1);
    CLASSES.get(index).copied().unwrap_or(Class::Other)
}

/// Returns the class of a system error, and advice for the user.
fn classify(error: &io::Error) -> (Class, &'static str) {
    match error.raw_os_error() {
        Some(libc::ENOENT) => (
            Class::NoSuchFile,
            "; check the path, or add MPI_MODE_CREATE",
        ),
        Some(libc::EEXIST) => (
            Class::FileExists,
            "; leave out MPI_MODE_EXCL, or choose another name",
        ),
        Some(libc::EACCES | libc::EPERM) => (
            Class::Access,
            "; check the permissions of the file and of its folder",
        ),
        Some(libc::ENOSPC) => (Class::NoSpace, "; free space on the file system"),
        Some(libc::EDQUOT) => (Class::Quota, "; free space or ask for a larger quota"),
        Some(libc::EROFS) => (Class::ReadOnly, ""),
        Some(
            libc::ENAMETOOLONG
            | libc::ENOTDIR
            | libc::EISDIR
            | libc::ELOOP
            | libc::ENXIO
            | libc::ENODEV,
        ) => (Class::BadFile, ""),
        Some(libc::ETXTBSY | libc::EBUSY) => (Class::FileInUse, ""),
        Some(libc::ENOMEM) => (Class::NoMem, ""),
        Some(libc::EMFILE | libc::ENFILE) => {
            (Class::Other, "; close files or raise the limit (ulimit -n)")
        }
        Some(libc::EOPNOTSUPP) => (Class::UnsupportedOperation, ""),
        _ => (Class::Io, ""),
    }
}

/// Returns the error for an operation on a file that the system refused.
#[cold]
pub(crate) fn error(doing: &str, path: &Path, error: &io::Error) -> Error {
    let (class, advice) = classify(error);
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    Error::new(class, format!("{doing} {}: {text}{advice}", path.display()))
}

/// Returns the last error of a C library call.
pub(crate) fn last() -> io::Error {
    io::Error::last_os_error()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_have_numbers_that_lead_back() {
        for one in CLASSES {
            assert_eq!(class(number(*one)), *one);
        }
        assert_eq!(class(number(Class::Rank)), Class::Other);
    }

    #[test]
    fn the_message_names_the_path() {
        let full = io::Error::from_raw_os_error(libc::ENOSPC);
        let error = error("writing to", Path::new("/tmp/full"), &full);
        assert_eq!(error.class(), Class::NoSpace);
        assert!(error.detail().contains("/tmp/full"), "{}", error.detail());
    }
}
