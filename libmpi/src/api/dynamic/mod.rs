//! Establishing communication (MPI-3.1 sections 10.4 and 10.5).

pub mod spawn;

use std::ffi::{CStr, c_char, c_int};
use std::sync::Arc;

use mpi_comm::dynamic::{Link, meet, part};
use mpi_core::info::Info;
use mpi_core::{Class, Error, Result};
use mpi_runtime::dynamic::opener::Transports;
use mpi_runtime::dynamic::ports::Port;
use mpi_runtime::dynamic::socket::Call;
use mpi_runtime::dynamic::{client, join};
use mpi_runtime::handles::comms::CommObject;
use mpi_runtime::lifecycle::runtime::{Runtime, runtime};
use mpi_runtime::settings::text;

use super::comm::{give, intra_only};
use super::null;
use crate::abi::{MPI_COMM_NULL, MPI_COMM_SELF, MPI_Comm, MPI_MAX_PORT_NAME};
use crate::args::{Out, OutText};

/// A string of the program's.
///
/// # Safety
/// `text` is a string or NULL.
pub(crate) unsafe fn string(text: *const c_char, name: &str) -> Result<String> {
    if text.is_null() {
        return Err(null(name));
    }
    // SAFETY: a string by the caller's contract.
    Ok(text::of(unsafe { CStr::from_ptr(text) }.to_bytes()))
}

/// `MPI_Open_port` (section 10.4.2). There are no keys of Info that matter here.
pub fn open_port(_: Option<&Info>, port_name: OutText<MPI_MAX_PORT_NAME>) -> Result<()> {
    let runtime = runtime()?;
    port_name.demand()?;
    let port = Port::open(runtime.public_node)?;
    let name = port.name(MPI_MAX_PORT_NAME as usize);
    port_name.write(&text::bytes(&name))?;
    runtime.dynamic.ports.lock().insert(name, Arc::new(port));
    Ok(())
}

/// `MPI_Close_port` (section 10.4.2).
pub unsafe fn close_port(port_name: *const c_char) -> Result<()> {
    let runtime = runtime()?;
    // SAFETY: a string is NULL or ends in NUL (strings, chapter of the module `api`).
    let name = unsafe { string(port_name, "port_name")? };
    match runtime.dynamic.ports.lock().remove(&name) {
        Some(_) => Ok(()),
        None => Err(no_port(&name)),
    }
}

fn no_port(name: &str) -> Error {
    Error::new(
        Class::Port,
        format!(
            "this process has no open port '{}'; give the name that MPI_Open_port returned here",
            name.escape_debug()
        ),
    )
}

/// The communicator and the root of a call that connects its group with another.
pub(crate) fn group_and_root(
    runtime: &Runtime,
    comm: MPI_Comm,
    root: c_int,
) -> Result<(Arc<CommObject>, u32)> {
    let object = runtime.comm_arc(comm)?;
    intra_only(&object.comm)?;
    let size = object.comm.size();
    let rank = u32::try_from(root).ok().filter(|rank| *rank < size);
    let rank = rank.ok_or_else(|| {
        let why = format!(
            "root is {root}; in a communicator of {size} it must be from 0 to {}",
            size - 1
        );
        Error::new(Class::Root, why)
    })?;
    Ok((object, rank))
}

fn call<'a>(runtime: &'a Runtime, parent: &'a CommObject) -> Call<'a> {
    Call {
        process: &runtime.process,
        comm: &parent.comm,
    }
}

/// Connects a group with another, to whose root the root has a socket, and gives the program the
/// intercommunicator.
pub(crate) fn connect_groups(
    runtime: &Runtime,
    parent: &CommObject,
    root: u32,
    first: bool,
    socket: Option<Result<impl Link>>,
    newcomm: Out<MPI_Comm>,
) -> Result<()> {
    let mut socket = socket;
    let link = socket.as_mut().map(|socket| match socket {
        Ok(socket) => Ok(socket as &mut dyn Link),
        Err(error) => Err(error.clone()),
    });
    let opener = Transports {
        node: runtime.public_node,
    };
    let met = meet(&runtime.process, &parent.comm, root, first, link, &opener);
    let given = met.and_then(|(comm, _pins)| give(runtime, Some(comm), parent, newcomm));
    // Another thread may meanwhile have freed the communicator with these processes that this call
    // kept connected.
    given.and(part::carry_on(&runtime.process))
}

/// `MPI_Comm_accept` (section 10.4.2). The port's name matters at the root only.
pub unsafe fn comm_accept(
    port_name: *const c_char,
    _: Option<&Info>,
    root: c_int,
    comm: MPI_Comm,
    newcomm: Out<MPI_Comm>,
) -> Result<()> {
    let runtime = runtime()?;
    let (parent, root) = group_and_root(runtime, comm, root)?;
    // A program that ignores the error gets the null handle.
    newcomm.set(MPI_COMM_NULL);
    let socket = (root == parent.comm.rank()).then(|| {
        // SAFETY: a string is NULL or ends in NUL (strings, chapter of the module `api`).
        let name = unsafe { string(port_name, "port_name")? };
        let port = runtime.dynamic.ports.lock().get(&name).cloned();
        let port = port.ok_or_else(|| no_port(&name))?;
        port.accept(call(runtime, &parent))
    });
    connect_groups(runtime, &parent, root, true, socket, newcomm)
}

/// `MPI_Comm_connect` (section 10.4.3). The port's name matters at the root only.
pub unsafe fn comm_connect(
    port_name: *const c_char,
    info: Option<&Info>,
    root: c_int,
    comm: MPI_Comm,
    newcomm: Out<MPI_Comm>,
) -> Result<()> {
    let runtime = runtime()?;
    let (parent, root) = group_and_root(runtime, comm, root)?;
    // A program that ignores the error gets the null handle.
    newcomm.set(MPI_COMM_NULL);
    let socket = (root == parent.comm.rank()).then(|| {
        // SAFETY: a string is NULL or ends in NUL (strings, chapter of the module `api`).
        let name = unsafe { string(port_name, "port_name")? };
        let within = client::time_to_accept(info)?;
        client::connect(call(runtime, &parent), &name, runtime.public_node, within)
    });
    connect_groups(runtime, &parent, root, false, socket, newcomm)
}

/// `MPI_Comm_join` (section 10.5.5). The socket is the program's again when the call returns.
pub fn comm_join(fd: c_int, intercomm: Out<MPI_Comm>) -> Result<()> {
    let runtime = runtime()?;
    // A program that ignores the error gets the null handle.
    intercomm.set(MPI_COMM_NULL);
    let parent = runtime.comm_arc(MPI_COMM_SELF)?;
    let (socket, first) = join::begin(call(runtime, &parent), fd)?;
    connect_groups(runtime, &parent, 0, first, Some(Ok(socket)), intercomm)
}

/// `MPI_Comm_get_parent` (section 10.3.2): null in processes that were not spawned, and once the
/// communicator is freed.
pub fn get_parent(parent: Out<MPI_Comm>) -> Result<()> {
    let handle = *runtime()?.dynamic.parent.lock();
    parent.set(handle.unwrap_or(MPI_COMM_NULL));
    Ok(())
}
