//! Look-up of a table's elements by index or name.

use std::ffi::c_int;

use crate::tool::Error;
use crate::tool::Result;

/// Returns element `index` of a table.
///
/// # Errors
/// `MPI_T_ERR_INVALID_INDEX`.
pub fn at<T>(table: &[T], index: c_int) -> Result<&T> {
    usize::try_from(index)
        .ok()
        .and_then(|index| table.get(index))
        .ok_or(Error::InvalidIndex)
}

/// Returns the index of the first element with a name; `name_if_fit` returns `None` for elements to
/// skip.
///
/// # Errors
/// `MPI_T_ERR_INVALID_NAME`.
pub fn named<T>(
    table: &'static [T],
    name: &[u8],
    name_if_fit: impl Fn(&'static T) -> Option<&'static str>,
) -> Result<usize> {
    let is_it = |it| name_if_fit(it).is_some_and(|it| it.as_bytes() == name);
    table.iter().position(is_it).ok_or(Error::InvalidName)
}
