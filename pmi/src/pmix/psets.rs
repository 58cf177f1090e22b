//! Named process sets, as of `prterun --pset NAME`.

use std::ffi::{CString, c_char, c_int};
use std::ptr;

use super::ffi::{self, DataArray, Info, Library, Proc, Query};
use super::{Pmix, fixed_text, info, string, take_text};
use crate::{PmiError, ProcessSet};

impl Pmix {
    /// Returns the sets whose members are all of this job; none if the server does not answer.
    pub(super) fn named_sets(&self) -> Result<Vec<ProcessSet>, PmiError> {
        self.alive("PMIx_Query_info")?;
        let Some(Answer::Text(names)) = ask(&self.library, c"pmix.qry.psets".as_ptr(), &[]) else {
            return Ok(Vec::new());
        };
        let mut sets = Vec::new();
        for name in names.split(',').filter(|name| !name.is_empty()) {
            let text = CString::new(name).unwrap_or_default();
            let of = [info(c"pmix.pset.nm", string(&text))];
            let found = ask(&self.library, c"pmix.qry.pmems".as_ptr(), &of);
            let Some(Answer::Processes(members)) = found else {
                continue;
            };
            let ours =
                |member: &Proc| (fixed_text(&member.space) == self.space).then_some(member.rank);
            if let Some(ranks) = members.iter().map(ours).collect() {
                let name = name.to_owned();
                sets.push(ProcessSet { name, ranks });
            }
        }
        Ok(sets)
    }
}

/// The result of a query.
enum Answer {
    Text(String),
    Processes(Vec<Proc>),
}

/// Returns the first answer to a query of a supported kind, if there is one.
fn ask(library: &Library, key: *const c_char, qualifiers: &[Info]) -> Option<Answer> {
    // Libraries before version 4 have no blocking query.
    let query = library.query?;
    let mut keys = [key.cast_mut(), ptr::null_mut()];
    let question = Query {
        keys: keys.as_mut_ptr(),
        // A non-null address without a number would be a terminated list.
        qualifiers: match qualifiers {
            [] => ptr::null_mut(),
            some => some.as_ptr().cast_mut(),
        },
        number: qualifiers.len(),
    };
    let mut results: *mut Info = ptr::null_mut();
    let mut count = 0;
    // SAFETY: the query and the memory that it points to live through the call, which only reads
    // them; this function owns the results.
    let status: c_int = unsafe { query(&question, 1, &mut results, &mut count) };
    if results.is_null() {
        return None;
    }
    let mut answer = None;
    for index in 0..count {
        // SAFETY: `results` points to `count` results, each valid and owned by this function.
        let found = unsafe { take(results.add(index)) };
        answer = answer.or(found);
    }
    // SAFETY: the library allocated it by malloc for the caller to free.
    unsafe { libc::free(results.cast()) };
    answer.filter(|_| status == ffi::SUCCESS)
}

/// Reads a result and frees the memory that it points to.
///
/// # Safety
/// It is valid, and belongs to the caller alone.
unsafe fn take(result: *mut Info) -> Option<Answer> {
    // SAFETY: the kind determines the valid member of the union; the memory that it points to comes
    // from malloc and belongs to the caller, and an array has the stated length.
    unsafe {
        let value = &(*result).value;
        match value.kind {
            ffi::STRING => Some(Answer::Text(take_text(value.data.string))),
            ffi::DATA_ARRAY if !value.data.pointer.is_null() => {
                let array = value.data.pointer.cast::<DataArray>();
                let DataArray { kind, size, items } = array.read();
                let members = (kind == ffi::PROC && !items.is_null()).then(|| {
                    let members = std::slice::from_raw_parts(items.cast::<Proc>(), size);
                    Answer::Processes(members.to_vec())
                });
                libc::free(items);
                libc::free(array.cast());
                members
            }
            _ => None,
        }
    }
}
