//! Active and persistent operations, by their requests.

use std::collections::{BTreeMap, HashMap};

use crate::buffers::{Region, Sent};
use crate::call_site::CallSite;
use crate::messages::Data;
use crate::report::report;

/// A message that an operation sends or receives.
#[derive(Clone)]
pub struct Message {
    /// The communicator's handle.
    pub comm: usize,
    /// Destination or source.
    pub peer: i32,
    /// The tag.
    pub tag: i32,
    /// The data.
    pub data: Data,
    /// Whether it is sent.
    pub sends: bool,
}

/// The operation of a request.
pub struct Operation {
    /// The call site of its start, or of its creation if persistent.
    pub place: CallSite,
    /// Its buffers.
    pub regions: Vec<Region>,
    /// Communicator and number of a receive.
    pub receive: Option<(u64, u64)>,
    /// Its messages.
    pub messages: Vec<Message>,
    /// Communicator and number of a collective.
    pub collective: Option<(u64, u64)>,
    /// Whether it is persistent.
    pub persistent: bool,
    /// Whether it is active.
    pub active: bool,
    /// Whether the program has called `MPI_Cancel`.
    pub cancelled: bool,
    /// The address of the request: operations that complete at once may share one handle.
    pub variable: usize,
    /// Whether it is indistinguishable from other operations with the same handle.
    pub unsure: bool,
}

/// All requests.
#[derive(Default)]
pub struct Requests(HashMap<usize, Vec<Operation>>);

impl Requests {
    /// Adds an operation.
    pub fn add(&mut self, handle: usize, operation: Operation) {
        self.0.entry(handle).or_default().push(operation);
    }

    /// Finds the operation of a request at an address.
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

    /// Removes the operation of a completed or freed request.
    pub fn remove(&mut self, handle: usize, variable: usize) -> Option<Operation> {
        let at = self.position(handle, variable)?;
        let operations = self.0.get_mut(&handle)?;
        let operation = operations.remove(at);
        if operations.is_empty() {
            self.0.remove(&handle);
        }
        Some(operation)
    }

    /// Returns whether the status of any of these requests is needed.
    pub fn need_status(&self, handles: &[usize]) -> bool {
        let receives = |operation: &Operation| operation.receive.is_some() || operation.cancelled;
        handles.iter().any(|handle| {
            self.0
                .get(handle)
                .is_some_and(|operations| operations.iter().any(receives))
        })
    }

    /// Reports buffers of a new call that an active operation uses.
    pub fn collide(&self, regions: &[Region], place: CallSite) {
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
            report("memory is in use by two operations", place, || {
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

    /// Reports requests that were not completed or freed.
    pub fn leaked(&self) {
        let mut places: BTreeMap<(String, bool), (CallSite, usize)> = BTreeMap::new();
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
                report("a request was not completed", place, || {
                    format!(
                        "{} made here {verb} not completed before MPI_Finalize; call MPI_Wait, MPI_Test or one of their \
                         like until each is complete, also for sends",
                        subject("")
                    )
                });
            } else {
                report("a persistent request was not freed", place, || {
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
    /// Reports send buffers that were changed or freed since the start.
    pub fn look(&self, place: CallSite) {
        if self.unsure {
            return;
        }
        for region in &self.regions {
            match region.look() {
                Sent::Same => {}
                Sent::Changed => report(
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
                Sent::Gone => report(
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
