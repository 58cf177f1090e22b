//! Hardware resources, and communicators divided by them (MPI-4.1 sections 7.4.2 and 9.1).

use std::ffi::c_int;
use std::ptr;

use mpi_core::comm::Comm;
use mpi_core::info::Info;
use mpi_core::{Class, Error, Result};
use mpi_runtime::bootstrap::hardware::resources;
use mpi_runtime::handles::in_call::InCall;
use mpi_runtime::handles::infos;
use mpi_runtime::handles::split_colors::{by_pset, guided, shared, unguided};
use mpi_runtime::lifecycle::runtime::Runtime;

use super::info;
use crate::abi::{
    MPI_COMM_TYPE_HW_GUIDED, MPI_COMM_TYPE_HW_UNGUIDED, MPI_COMM_TYPE_RESOURCE_GUIDED,
    MPI_COMM_TYPE_SHARED, MPI_INFO_ENV, MPI_Info, MPI_UNDEFINED,
};
use crate::args::Out;

/// `MPI_Get_hw_resource_info` (MPI-4.1 section 9.1): the known resource types, and for each whether
/// this process is bound to one instance.
pub fn get_hw_resource_info(hw_info: Out<MPI_Info>) -> Result<()> {
    let found = Info::new();
    for resource in resources() {
        let confined = if resource.instance.is_some() {
            "true"
        } else {
            "false"
        };
        found.set(resource.name, confined)?;
    }
    info::give(found, hw_info)
}

/// Returns the color by which `MPI_Comm_split_type` divides: processes with the same number form a
/// communicator, those without one get none. An unguided split reports the resource type in `info`
/// (MPI-4.1 section 7.4.2).
///
/// # Errors
/// [`Class::Arg`] for a split type that does not exist; the errors of messages.
pub(crate) fn color(
    runtime: &Runtime,
    comm: &Comm,
    split_type: c_int,
    info: Option<&Info>,
    call: InCall,
) -> Result<Option<u64>> {
    let hint = |key| info.and_then(|info: &Info| info.hint(key));
    Ok(match split_type {
        MPI_UNDEFINED => None,
        MPI_COMM_TYPE_SHARED => Some(shared(runtime, comm)),
        MPI_COMM_TYPE_HW_GUIDED => {
            hint("mpi_hw_resource_type").and_then(|kind| guided(runtime, comm, &kind))
        }
        MPI_COMM_TYPE_RESOURCE_GUIDED => {
            match (hint("mpi_hw_resource_type"), hint("mpi_pset_name")) {
                (Some(kind), None) => guided(runtime, comm, &kind),
                (None, Some(pset)) => by_pset(runtime, comm, &pset),
                // With both keys, or neither, the resource type is not determined.
                _ => None,
            }
        }
        MPI_COMM_TYPE_HW_UNGUIDED => {
            let chosen = unguided(runtime, comm)?;
            let constant = infos::get(MPI_INFO_ENV, call).ok();
            let own = info.filter(|info| !constant.is_some_and(|it| ptr::eq(it, *info)));
            if let (Some((_, kind)), Some(info)) = (chosen, own) {
                info.set("mpi_hw_resource_type", kind)?;
            }
            chosen.map(|(color, _)| color)
        }
        _ => {
            return Err(Error::new(
                Class::Arg,
                format!(
                    "split_type is {split_type}; it can be MPI_COMM_TYPE_SHARED, \
                     MPI_COMM_TYPE_HW_GUIDED, MPI_COMM_TYPE_HW_UNGUIDED, \
                     MPI_COMM_TYPE_RESOURCE_GUIDED or MPI_UNDEFINED"
                ),
            ));
        }
    })
}
