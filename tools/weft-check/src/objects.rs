//! What the program makes and must end: communicators, datatypes, files and so on.

use std::collections::{BTreeMap, HashMap};

use crate::abi::abi;
use crate::calls::{Call, Kind};
use crate::place::Place;
use crate::say::say;

/// Functions that give handles which nobody needs to give back.
const BORROWED: [&str; 6] = [
    "MPI_Comm_get_parent",
    "MPI_Type_match_size",
    "MPI_Type_create_f90_real",
    "MPI_Type_create_f90_complex",
    "MPI_Type_create_f90_integer",
    "MPI_Type_get_value_index",
];

/// What is made and how it is ended.
fn words(kind: Kind) -> (&'static str, &'static str) {
    match kind {
        Kind::Comm => ("communicator", "MPI_Comm_free or MPI_Comm_disconnect"),
        Kind::Group => ("group", "MPI_Group_free"),
        Kind::Datatype => ("datatype", "MPI_Type_free"),
        Kind::Op => ("reduction operation", "MPI_Op_free"),
        Kind::Errhandler => ("error handler", "MPI_Errhandler_free"),
        Kind::Info => ("info object", "MPI_Info_free"),
        Kind::Win => ("window", "MPI_Win_free"),
        Kind::Session => ("session", "MPI_Session_finalize"),
        Kind::File => ("file", "MPI_File_close"),
        Kind::Message => ("matched message", "MPI_Mrecv or MPI_Imrecv"),
        Kind::Request | Kind::Buffer => ("request", "MPI_Wait"),
    }
}

/// Whether a call ends what its argument names.
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

/// What a call is going to end.
pub fn ending(call: Call<'_>) -> Option<(Kind, usize)> {
    if !ends(call) {
        return None;
    }
    let params = call.function.params.iter().zip(call.args);
    let mut handles = params.filter_map(|(param, &raw)| {
        let kind = param
            .kind
            .filter(|kind| *kind != Kind::Buffer && *kind != Kind::Request)?;
        let is_place = param.pointer && param.written && param.read && raw != 0;
        is_place.then(|| (kind, abi().handles(kind, raw, 1)[0]))
    });
    handles.next()
}

/// What a call has made.
pub fn made(call: Call<'_>) -> Vec<(Kind, usize)> {
    if BORROWED.contains(&call.base()) {
        return Vec::new();
    }
    let mut made = Vec::new();
    for (param, &raw) in call.function.params.iter().zip(call.args) {
        let Some(kind) = param
            .kind
            .filter(|kind| *kind != Kind::Buffer && *kind != Kind::Request)
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

/// Everything that there is now, and where it was made.
#[derive(Default)]
pub struct Objects(HashMap<(Kind, usize), Vec<Place>>);

impl Objects {
    /// Something was made.
    pub fn add(&mut self, kind: Kind, handle: usize, place: Place) {
        self.0.entry((kind, handle)).or_default().push(place);
    }

    /// Something is ended. Returns where it was made.
    pub fn remove(&mut self, kind: Kind, handle: usize) -> Option<Place> {
        let places = self.0.get_mut(&(kind, handle))?;
        let place = places.pop();
        if places.is_empty() {
            self.0.remove(&(kind, handle));
        }
        place
    }

    /// Whether it is there.
    pub fn knows(&self, kind: Kind, handle: usize) -> bool {
        self.0.contains_key(&(kind, handle))
    }

    /// Tells of all that was not ended.
    pub fn leaked(&self) {
        // By their text: a loop that the compiler has unrolled is several places and one for a person.
        let mut places: BTreeMap<(&str, String), (Kind, Place, usize)> = BTreeMap::new();
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
            if kind == Kind::Message {
                say("a message was not received", place, || {
                    format!("{subject} {verb} found here and never received; receive it by {how}")
                });
                continue;
            }
            say("something was not freed", place, || {
                format!(
                    "{subject} {verb} made here and not freed before MPI_Finalize; call {how} when it is not used any more"
                )
            });
        }
    }
}
