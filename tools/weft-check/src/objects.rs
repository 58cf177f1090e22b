//! Objects that the program creates and must free: communicators, datatypes, files and so on.

use std::collections::{BTreeMap, HashMap};

use crate::abi::abi;
use crate::call_site::CallSite;
use crate::calls::{Call, ParamKind};
use crate::report::report;

/// Functions whose handles need not be freed.
const BORROWED: [&str; 6] = [
    "MPI_Comm_get_parent",
    "MPI_Type_match_size",
    "MPI_Type_create_f90_real",
    "MPI_Type_create_f90_complex",
    "MPI_Type_create_f90_integer",
    "MPI_Type_get_value_index",
];

/// Returns the name of a kind of object, and the function that frees it.
fn words(kind: ParamKind) -> (&'static str, &'static str) {
    match kind {
        ParamKind::Comm => ("communicator", "MPI_Comm_free or MPI_Comm_disconnect"),
        ParamKind::Group => ("group", "MPI_Group_free"),
        ParamKind::Datatype => ("datatype", "MPI_Type_free"),
        ParamKind::Op => ("reduction operation", "MPI_Op_free"),
        ParamKind::Errhandler => ("error handler", "MPI_Errhandler_free"),
        ParamKind::Info => ("info object", "MPI_Info_free"),
        ParamKind::Win => ("window", "MPI_Win_free"),
        ParamKind::Session => ("session", "MPI_Session_finalize"),
        ParamKind::File => ("file", "MPI_File_close"),
        ParamKind::Message => ("matched message", "MPI_Mrecv or MPI_Imrecv"),
        ParamKind::Request | ParamKind::Buffer => ("request", "MPI_Wait"),
    }
}

/// Returns whether a call frees its argument.
fn ends(call: Call<'_>) -> bool {
    let base = call.base();
    base.ends_with("_free")
        || matches!(
            base,
            "MPI_File_close"
                | "MPI_Comm_disconnect"
                | "MPI_Session_finalize"
                | "MPI_Mrecv"
                | "MPI_Imrecv"
        )
}

/// Returns the object that a call is going to free.
pub fn ending(call: Call<'_>) -> Option<(ParamKind, usize)> {
    if !ends(call) {
        return None;
    }
    let params = call.function.params.iter().zip(call.args);
    let mut handles = params.filter_map(|(param, &raw)| {
        let kind = param
            .kind
            .filter(|kind| *kind != ParamKind::Buffer && *kind != ParamKind::Request)?;
        let is_place = param.pointer && param.written && param.read && raw != 0;
        is_place.then(|| (kind, abi().handles(kind, raw, 1)[0]))
    });
    handles.next()
}

/// Returns the objects that a call has created.
pub fn made(call: Call<'_>) -> Vec<(ParamKind, usize)> {
    if BORROWED.contains(&call.base()) {
        return Vec::new();
    }
    let mut made = Vec::new();
    for (param, &raw) in call.function.params.iter().zip(call.args) {
        let Some(kind) = param
            .kind
            .filter(|kind| *kind != ParamKind::Buffer && *kind != ParamKind::Request)
        else {
            continue;
        };
        if !param.pointer || !param.written || param.read || raw == 0 {
            continue;
        }
        let count = match param.array {
            true => call.number("max_datatypes").unwrap_or(0),
            false => 1,
        };
        let handles = abi().handles(kind, raw, usize::try_from(count).unwrap_or(0));
        let new = handles
            .into_iter()
            .filter(|handle| abi().predefined(kind, *handle).is_none());
        made.extend(
            new.filter(|handle| *handle != 0)
                .map(|handle| (kind, handle)),
        );
    }
    made
}

/// All objects with the call sites of their creation.
#[derive(Default)]
pub struct Objects(HashMap<(ParamKind, usize), Vec<CallSite>>);

impl Objects {
    /// Adds an object.
    pub fn add(&mut self, kind: ParamKind, handle: usize, place: CallSite) {
        self.0.entry((kind, handle)).or_default().push(place);
    }

    /// Removes an object. Returns the call site of its creation.
    pub fn remove(&mut self, kind: ParamKind, handle: usize) -> Option<CallSite> {
        let places = self.0.get_mut(&(kind, handle))?;
        let place = places.pop();
        if places.is_empty() {
            self.0.remove(&(kind, handle));
        }
        place
    }

    /// Returns whether an object exists.
    pub fn knows(&self, kind: ParamKind, handle: usize) -> bool {
        self.0.contains_key(&(kind, handle))
    }

    /// Reports all objects that were not freed.
    pub fn leaked(&self) {
        // Grouped by text: an unrolled loop has several call sites, but one source line.
        let mut places: BTreeMap<(&str, String), (ParamKind, CallSite, usize)> = BTreeMap::new();
        for ((kind, _), made) in &self.0 {
            for place in made {
                let key = (words(*kind).0, place.text());
                places.entry(key).or_insert((*kind, *place, 0)).2 += 1;
            }
        }
        for (kind, place, count) in places.into_values() {
            let (what, how) = words(kind);
            let article = if what.starts_with(['e', 'i']) {
                "an"
            } else {
                "a"
            };
            let (subject, verb) = match count {
                1 => (format!("{article} {what}"), "was"),
                _ => (format!("{count} {what}s"), "were"),
            };
            if kind == ParamKind::Message {
                report("a message was not received", place, || {
                    format!("{subject} {verb} found here and never received; receive it by {how}")
                });
                continue;
            }
            report("something was not freed", place, || {
                format!(
                    "{subject} {verb} made here and not freed before MPI_Finalize; call {how} when it is not used any more"
                )
            });
        }
    }
}
