//! Lets failure handling find the program's communicators in the handle tables.

use std::sync::Arc;

use mpi_coll::Holder;
use mpi_comm::failure::{Failures, Registry};
use mpi_core::comm::ContextId;

use crate::handles::comms::CommObject;
use crate::handles::predefined::{MPI_COMM_SELF, MPI_COMM_WORLD};
use crate::lifecycle::runtime::{Runtime, running};

/// Looks communicators up in the tables of the runtime.
struct HandleTables;

impl Registry for HandleTables {
    fn by_context(&self, context: ContextId) -> Option<Holder> {
        let runtime = running()?;
        let is_it = |object: &CommObject| object.comm.context() == context;
        let predefined = [&runtime.world, &runtime.self_comm];
        if let Some(object) = predefined.into_iter().find(|object| is_it(object)) {
            return Some(object.clone());
        }
        let found: Arc<CommObject> = runtime.comms.find_arc(is_it)?;
        Some(found)
    }

    fn by_owner(&self, owner: u32) -> Option<Holder> {
        let runtime = running()?;
        let found = match owner.cast_signed() {
            MPI_COMM_WORLD => runtime.world.clone(),
            MPI_COMM_SELF => runtime.self_comm.clone(),
            handle => runtime.comms.get_kept(handle)?,
        };
        Some(found)
    }
}

/// Registers the handle tables with the process's failure handling.
pub(crate) fn register(runtime: &Runtime) {
    runtime
        .process
        .source::<Failures>()
        .use_registry(HandleTables);
}
