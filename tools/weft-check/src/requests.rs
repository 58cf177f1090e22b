//! Operations under way, by their requests.

use std::collections::{BTreeMap, HashMap};

use crate::buffers::{Region, Sent};
use crate::messages::Data;
use crate::place::Place;
use crate::say::say;

/// A message that an operation sends or receives.
#[derive(Clone)]
pub struct Message {
    /// The communicator's handle.
    pub comm: usize,
    /// Destination or source.
    pub peer: i32,
    /// The tag.
    pub tag: i32,
    /// What is sent or received.
    pub data: Data,
    /// Whether it is sent.
    pub sends: bool,
}

/// An operation that a request stands for.
pub struct Operation {
    /// Where it was begun, or made.
    pub place: Place,
    /// Its memory.
    pub regions: Vec<Region>,
    /// The receive's communicator and number.
    pub receive: Option<(u64, u64)>,
    /// The messages that are sent and received.
    pub messages: Vec<Message>,
    /// The collective's communicator and number.
    pub collective: Option<(u64, u64)>,
    /// Whether it can be started again.
    pub persistent: bool,
    /// Whether it is under way.
    pub active: bool,
    /// Whether the program wanted it cancelled.
    pub cancelled: bool,
    /// The address that the request was written to: requests of operations that were complete at once are alike.
    pub variable: usize,
    /// Whether it isn't known which of several operations this one is.
    pub unsure: bool,
}

/// All requests.
#[derive(Default)]
pub struct Requests(HashMap<usize, Vec<Operation>>);

impl Requests {
    /// An operation was begun or made.
    pub fn add(&mut self, handle: usize, operation: Operation) {
        self.0.entry(handle).or_default().push(operation);
    }

    /// The operation that a request at an address stands for.
    pub fn find(&mut self, handle: usize, variable: usize) -> Option<&mut Operation> {
        let at = self.position(handle, variable)?;
        self.0.get_mut(&handle)?.get_mut(at)
    }

    fn position(&mut self, handle: usize, variable: usize) -> Option<usize> {
        let operations = self.0.get_mut(&handle)?;
        if operations.len() == 1 {
            return Some(0);
        }
        let found = operations
            .iter()
            .rposition(|operation| operation.variable == variable);
        if found.is_none() {
            operations
                .iter_mut()
                .for_each(|operation| operation.unsure = true);
        }
        Some(found.unwrap_or(0))
    }

    /// A request was completed or freed.
    pub fn remove(&mut self, handle: usize, variable: usize) -> Option<Operation> {
        let at = self.position(handle, variable)?;
        let operations = self.0.get_mut(&handle)?;
        let operation = operations.remove(at);
        if operations.is_empty() {
            self.0.remove(&handle);
        }
        Some(operation)
    }

    /// Whether any of these stands for something whose status matters.
    pub fn need_status(&self, handles: &[usize]) -> bool {
        let receives = |operation: &Operation| operation.receive.is_some() || operation.cancelled;
        handles.iter().any(|handle| {
            self.0
                .get(handle)
                .is_some_and(|operations| operations.iter().any(receives))
        })
    }

    /// Whether memory of a call that begins is in use.
    pub fn collide(&self, regions: &[Region], place: Place) {
        for other in self
            .0
            .values()
            .flatten()
            .filter(|operation| operation.active && !operation.unsure)
        {
            let hit = regions.iter().find_map(|region| {
                let hit = other.regions.iter().find(|other| region.collides(other))?;
                Some((region.written, hit.written))
            });
            let Some((mine, theirs)) = hit else { continue };
            say("memory is in use by two operations", place, || {
                let what = match (mine, theirs) {
                    (true, true) => "both write to it",
                    (true, false) => "this call writes to it while the other sends it",
                    _ => "this call sends it while the other writes to it",
                };
                format!(
                    "memory of this call is in use by an operation that is not complete ({}): {what}. Complete that one \
                     first (MPI_Wait), or use other memory",
                    other.place.text()
                )
            });
            return;
        }
    }

    /// At the end: requests that were not completed.
    pub fn leaked(&self) {
        let mut places: BTreeMap<(String, bool), (Place, usize)> = BTreeMap::new();
        for operation in self.0.values().flatten() {
            let key = (operation.place.text(), operation.active);
            places.entry(key).or_insert((operation.place, 0)).1 += 1;
        }
        for ((_, active), (place, count)) in places {
            let verb = if count == 1 { "was" } else { "were" };
            let subject = |kind: &str| match count {
                1 => format!("a {kind}request"),
                _ => format!("{count} {kind}requests"),
            };
            if active {
                say("a request was not completed", place, || {
                    format!(
                        "{} made here {verb} not completed before MPI_Finalize; call MPI_Wait, MPI_Test or one of their \
                         like until each is complete, also for sends",
                        subject("")
                    )
                });
            } else {
                say("a persistent request was not freed", place, || {
                    let subject = subject("persistent ");
                    format!(
                        "{subject} made here {verb} not freed before MPI_Finalize; call MPI_Request_free"
                    )
                });
            }
        }
    }
}

impl Operation {
    /// What was being sent must still be there.
    pub fn look(&self, place: Place) {
        if self.unsure {
            return;
        }
        for region in &self.regions {
            match region.look() {
                Sent::Same => {}
                Sent::Changed => say(
                    "memory was changed while it was being sent",
                    self.place,
                    || {
                        format!(
                            "the memory that is sent here was changed before the operation was complete (by {}). What the \
                         receiver gets depends on chance: change it only after that call, or send a copy",
                            place.text()
                        )
                    },
                ),
                Sent::Gone => say(
                    "memory was given back while it was being sent",
                    self.place,
                    || {
                        format!(
                            "the memory that is sent here was given back before the operation was complete (by {}); free it \
                         only after that call",
                            place.text()
                        )
                    },
                ),
            }
        }
    }
}
