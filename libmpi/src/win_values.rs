//! The predefined attributes of windows (section 11.2.6), in the ABI's numbers.

use std::ffi::{c_int, c_void};

use mpi_rma::{Flavor, Window};
use mpi_runtime::handles::wins::{Values, WinObject};

use crate::abi::{
    MPI_Aint, MPI_UNDEFINED, MPI_WIN_BASE, MPI_WIN_CREATE_FLAVOR, MPI_WIN_DISP_UNIT,
    MPI_WIN_FLAVOR_ALLOCATE, MPI_WIN_FLAVOR_CREATE, MPI_WIN_FLAVOR_DYNAMIC, MPI_WIN_FLAVOR_SHARED,
    MPI_WIN_MODEL, MPI_WIN_SIZE, MPI_WIN_UNIFIED,
};

/// Returns the values for a window.
pub fn of(window: &Window) -> Values {
    let (size, unit) = window.extent_of(window.rank());
    Values {
        size: size as MPI_Aint,
        // Only MPI_Win_shared_query_c can return a larger one.
        unit: c_int::try_from(unit).unwrap_or(MPI_UNDEFINED),
        flavor: match window.flavor() {
            Flavor::Created(_) => MPI_WIN_FLAVOR_CREATE,
            Flavor::Allocated => MPI_WIN_FLAVOR_ALLOCATE,
            Flavor::Shared { .. } => MPI_WIN_FLAVOR_SHARED,
            Flavor::Dynamic => MPI_WIN_FLAVOR_DYNAMIC,
        },
        model: MPI_WIN_UNIFIED,
    }
}

/// Returns the value of a predefined key: the window's base, or the address of a number; `None` for
/// other keys.
pub fn find(object: &WinObject, keyval: c_int) -> Option<*mut c_void> {
    let number = |number: &c_int| (&raw const *number).cast_mut().cast();
    Some(match keyval {
        MPI_WIN_BASE => object.window.base().cast(),
        MPI_WIN_SIZE => (&raw const object.values.size).cast_mut().cast(),
        MPI_WIN_DISP_UNIT => number(&object.values.unit),
        MPI_WIN_CREATE_FLAVOR => number(&object.values.flavor),
        MPI_WIN_MODEL => number(&object.values.model),
        _ => return None,
    })
}
