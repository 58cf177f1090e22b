//! Communicators, with ids that are the same on all their members.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use crate::abi::abi;
use crate::calls::Call;
use crate::pmpi;

/// A communicator.
pub struct Comm {
    /// An id that is the same on all members.
    pub id: u64,
    /// The peers' ranks in `MPI_COMM_WORLD`; `None` if one has none.
    pub ranks: Option<Arc<[i32]>>,
    /// This process's rank.
    pub rank: i32,
    /// Whether it is an intercommunicator.
    pub inter: bool,
    /// Number of collectives so far.
    pub collectives: u64,
    /// Number of communicators created from it.
    children: u64,
}

/// The state of a communicator that is freed.
pub struct Removed {
    known: Option<Comm>,
    new: Option<u64>,
}

/// The communicators of the program.
#[derive(Default)]
pub struct Comms {
    known: HashMap<usize, Comm>,
    /// Ids of new communicators whose members are not known yet.
    new: HashMap<usize, u64>,
    /// Number of communicators without parent that were created with the same arguments.
    counts: HashMap<u64, u64>,
}

fn hash(what: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    what.hash(&mut hasher);
    hasher.finish()
}

impl Comms {
    /// Returns a communicator by its handle, if its messages can be checked.
    pub fn get(&mut self, handle: usize) -> Option<&mut Comm> {
        if !self.known.contains_key(&handle) {
            let id = match handle {
                _ if handle == abi().world => 1,
                // MPI_COMM_SELF has no other members.
                _ if handle == abi().comm_self => 2,
                _ => *self.new.get(&handle)?,
            };
            let inter = pmpi::is_inter(handle);
            self.new.remove(&handle);
            self.known.insert(
                handle,
                Comm {
                    id,
                    ranks: pmpi::world_ranks(handle, inter).map(Arc::from),
                    rank: pmpi::rank(handle)?,
                    inter,
                    collectives: 0,
                    children: 0,
                },
            );
        }
        self.known.get_mut(&handle)
    }

    /// Returns the id of the communicator that a call creates. All members must call it in the same
    /// order.
    pub fn id_of_new(&mut self, call: Call<'_>) -> Option<u64> {
        let base = call.base();
        match base {
            "MPI_Comm_create_group"
            | "MPI_Intercomm_create"
            | "MPI_Intercomm_create_from_groups"
            | "MPI_Comm_create_from_group"
            | "MPI_Comm_spawn"
            | "MPI_Comm_spawn_multiple"
            | "MPI_Comm_connect"
            | "MPI_Comm_accept"
            | "MPI_Comm_join" => None,
            _ => {
                let name = call.function.params.iter().find_map(|param| {
                    (["comm", "comm_old", "old_comm", "intercomm"].contains(&param.name)
                        && !param.pointer)
                        .then_some(param.name)
                })?;
                let parent = self.get(call.handle(name)?)?;
                parent.children += 1;
                Some(hash((parent.id, parent.children, "child")))
            }
        }
    }

    /// Adds a new communicator. `id` is the result of [`Self::id_of_new`].
    pub fn add(&mut self, call: Call<'_>, handle: usize, id: Option<u64>) {
        self.known.remove(&handle);
        let id = id.or_else(|| {
            if call.base() != "MPI_Comm_create_group" {
                return None;
            }
            // Exactly the members of the new communicator take part.
            let members = pmpi::world_ranks(handle, false)?;
            let parent = self.get(call.handle("comm")?)?.id;
            let key = hash((parent, members, call.number("tag"), "group"));
            let count = self.counts.entry(key).or_default();
            *count += 1;
            Some(hash((key, *count)))
        });
        match id {
            Some(id) => drop(self.new.insert(handle, id)),
            None => drop(self.new.remove(&handle)),
        }
    }

    /// Removes a communicator before it is freed.
    pub fn remove(&mut self, handle: usize) -> Removed {
        Removed {
            known: self.known.remove(&handle),
            new: self.new.remove(&handle),
        }
    }

    /// Restores a communicator that could not be freed.
    pub fn put_back(&mut self, handle: usize, removed: Removed) {
        if let Some(comm) = removed.known {
            self.known.insert(handle, comm);
        }
        if let Some(id) = removed.new {
            self.new.insert(handle, id);
        }
    }
}
