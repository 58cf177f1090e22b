//! Communicators: which they are, in words that all their members say alike.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use crate::abi::abi;
use crate::calls::Call;
use crate::pmpi;

/// A communicator.
pub struct Comm {
    /// The same for all members.
    pub id: u64,
    /// Ranks in `MPI_COMM_WORLD` of those whom messages go to; none if some have none.
    pub ranks: Option<Arc<[i32]>>,
    /// This process's rank.
    pub rank: i32,
    /// Whether it is an intercommunicator.
    pub inter: bool,
    /// Collectives so far.
    pub collectives: u64,
    /// Communicators that were made from it.
    children: u64,
}

/// What was known of a communicator that is given back.
pub struct Removed {
    known: Option<Comm>,
    new: Option<u64>,
}

/// The communicators of the program.
#[derive(Default)]
pub struct Comms {
    known: HashMap<usize, Comm>,
    /// Ids of those whose members could not be asked yet.
    new: HashMap<usize, u64>,
    /// Of communicators that are made without a parent: how often with the same arguments.
    counts: HashMap<u64, u64>,
}

fn hash(what: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    what.hash(&mut hasher);
    hasher.finish()
}

impl Comms {
    /// A communicator by its handle, if messages on it can be followed.
    pub fn get(&mut self, handle: usize) -> Option<&mut Comm> {
        if !self.known.contains_key(&handle) {
            let id = match handle {
                _ if handle == abi().world => 1,
                // Nobody else has this one.
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

    /// Before a communicator is made: the id that it will have, which must be found in the same order by all.
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

    /// A communicator was made. `id`: what was found before.
    pub fn add(&mut self, call: Call<'_>, handle: usize, id: Option<u64>) {
        self.known.remove(&handle);
        let id = id.or_else(|| {
            if call.base() != "MPI_Comm_create_group" {
                return None;
            }
            // All members of the new one, and they alone, take part.
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

    /// A communicator is given back.
    pub fn remove(&mut self, handle: usize) -> Removed {
        Removed {
            known: self.known.remove(&handle),
            new: self.new.remove(&handle),
        }
    }

    /// A communicator was not given back after all.
    pub fn put_back(&mut self, handle: usize, removed: Removed) {
        if let Some(comm) = removed.known {
            self.known.insert(handle, comm);
        }
        if let Some(id) = removed.new {
            self.new.insert(handle, id);
        }
    }
}
