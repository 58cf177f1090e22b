//! The sets of processes that have names: `prterun --pset NAME`, say.

use std::ffi::{CString, c_char, c_int};
use std::ptr;

use super::ffi::{self, DataArray, Info, Library, Proc, Query};
use super::{Pmix, fixed_text, info, string, take_text};
use crate::{PmiError, ProcessSet};

impl Pmix {
    /// The sets whose members are all of this job. A server that has no answer knows no sets.
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

/// What a query gives.
enum Answer {
    Text(String),
    Processes(Vec<Proc>),
}

/// The first answer to a query, if there is one of a kind that is known here.
fn ask(library: &Library, key: *const c_char, qualifiers: &[Info]) -> Option<Answer> {
    // Libraries before version 4 have no such function that waits.
    let query = library.query?;
    let mut keys = [key.cast_mut(), ptr::null_mut()];
    let question = Query {
        keys: keys.as_mut_ptr(),
        // An address without a number would be a list with an end of its own.
        qualifiers: match qualifiers {
            [] => ptr::null_mut(),
            some => some.as_ptr().cast_mut(),
        },
        number: qualifiers.len(),
    };
    let mut results: *mut Info = ptr::null_mut();
    let mut count = 0;
    // SAFETY: the query and what it points to live through the call, which reads only; the results are ours.
    let status: c_int = unsafe { query(&question, 1, &mut results, &mut count) };
    if results.is_null() {
        return None;
    }
    let mut answer = None;
    for index in 0..count {
        // SAFETY: so many results lie there, each valid and nobody else's.
        let found = unsafe { take(results.add(index)) };
        answer = answer.or(found);
    }
    // SAFETY: allocated by malloc, for us to free.
    unsafe { libc::free(results.cast()) };
    answer.filter(|_| status == ffi::SUCCESS)
}

/// What a result says; what it points to is freed.
///
/// # Safety
/// It is valid, and the caller's alone.
unsafe fn take(result: *mut Info) -> Option<Answer> {
    // SAFETY: the kind tells which member of the union is valid; what it points to comes from malloc, and an
    // array is as long as it says.
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
