//! The MPI functions that this library calls itself. Handles have a register's width, as in the
//! wrappers.

use std::ffi::{c_int, c_void};
use std::mem::transmute;

use weft_pmpi::Real;

use crate::abi::abi;
use crate::calls::ParamKind;

/// Declares an MPI function: its Rust name, its PMPI name, its parameters in registers.
macro_rules! function {
    ($name:ident, $real:literal, $($param:ident),*) => {
        fn $name($($param: usize),*) -> bool {
            static REAL: Real = Real::new($real);
            type Type = unsafe extern "C" fn($(function!(@ $param)),*) -> c_int;
            // SAFETY: the MPI standard gives the function these parameters, each in a register.
            let real = unsafe { transmute::<*mut c_void, Type>(REAL.get()) };
            // SAFETY: the callers in this module pass valid handles, and pointers with room for the
            // results.
            unsafe { real($($param),*) == 0 }
        }
    };
    (@ $param:ident) => { usize };
}

function!(
    real_isend,
    c"PMPI_Isend",
    buffer,
    count,
    datatype,
    to,
    tag,
    comm,
    request
);
function!(
    real_recv,
    c"PMPI_Recv",
    buffer,
    count,
    datatype,
    from,
    tag,
    comm,
    status
);
function!(
    real_send,
    c"PMPI_Send",
    buffer,
    count,
    datatype,
    to,
    tag,
    comm
);
function!(real_test, c"PMPI_Test", request, flag, status);
function!(real_iprobe, c"PMPI_Iprobe", source, tag, comm, flag, status);
function!(real_probe, c"PMPI_Probe", source, tag, comm, status);
function!(real_get_count, c"PMPI_Get_count", status, datatype, count);
function!(real_cancelled, c"PMPI_Test_cancelled", status, flag);
function!(
    real_alltoall,
    c"PMPI_Alltoall",
    from,
    count,
    datatype,
    to,
    count2,
    datatype2,
    comm
);
function!(real_dup, c"PMPI_Comm_dup", comm, new);
function!(real_comm_free, c"PMPI_Comm_free", comm);
function!(real_errhandler, c"PMPI_Comm_set_errhandler", comm, handler);
function!(real_rank, c"PMPI_Comm_rank", comm, rank);
function!(real_size, c"PMPI_Comm_size", comm, size);
function!(real_test_inter, c"PMPI_Comm_test_inter", comm, flag);
function!(real_group, c"PMPI_Comm_group", comm, group);
function!(real_remote_group, c"PMPI_Comm_remote_group", comm, group);
function!(real_group_size, c"PMPI_Group_size", group, size);
function!(
    real_translate,
    c"PMPI_Group_translate_ranks",
    group,
    count,
    ranks,
    other,
    others
);
function!(real_group_free, c"PMPI_Group_free", group);
function!(real_type_size, c"PMPI_Type_size_c", datatype, size);
function!(
    real_extent,
    c"PMPI_Type_get_extent_c",
    datatype,
    lower,
    extent
);
function!(
    real_envelope,
    c"PMPI_Type_get_envelope_c",
    datatype,
    ints,
    addresses,
    large,
    types,
    combiner
);
function!(
    real_contents,
    c"PMPI_Type_get_contents_c",
    datatype,
    most_ints,
    most_addresses,
    most_large,
    most_types,
    ints,
    addresses,
    large,
    types
);
function!(real_type_free, c"PMPI_Type_free", datatype);
function!(real_abort, c"PMPI_Abort", comm, code);
function!(real_is_initialized, c"PMPI_Initialized", flag);

/// Returns a pointer as an integer.
fn at<T>(place: &mut T) -> usize {
    (&raw mut *place) as usize
}

/// A status, with room for that of every ABI.
type Status = [i32; 8];

fn ask(function: impl Fn(usize) -> bool) -> Option<i32> {
    let mut answer: c_int = 0;
    function(at(&mut answer)).then_some(answer)
}

/// Returns whether MPI is initialized.
pub fn is_initialized() -> bool {
    ask(real_is_initialized) == Some(1)
}

/// Creates the shadow communicator: a duplicate of `MPI_COMM_WORLD` that returns errors.
pub fn shadow() -> Option<usize> {
    let mut new = 0;
    if !real_dup(abi().world, at(&mut new)) {
        return None;
    }
    real_errhandler(new, abi().errors_return);
    Some(new)
}

/// Frees the shadow communicator.
pub fn end_shadow(mut comm: usize) {
    real_comm_free(at(&mut comm));
}

/// Returns this process's rank.
pub fn rank(comm: usize) -> Option<i32> {
    ask(|place| real_rank(comm, place))
}

/// Returns the size of a communicator.
pub fn size(comm: usize) -> Option<i32> {
    ask(|place| real_size(comm, place))
}

/// Returns whether a communicator is an intercommunicator.
pub fn is_inter(comm: usize) -> bool {
    ask(|place| real_test_inter(comm, place)) == Some(1)
}

/// Returns the peers' ranks in `MPI_COMM_WORLD`, by their ranks in the communicator.
pub fn world_ranks(comm: usize, inter: bool) -> Option<Vec<i32>> {
    let (mut group, mut world) = (0usize, 0usize);
    let found = if inter {
        real_remote_group(comm, at(&mut group))
    } else {
        real_group(comm, at(&mut group))
    };
    if !found || !real_group(abi().world, at(&mut world)) {
        return None;
    }
    let size = ask(|place| real_group_size(group, place)).unwrap_or(0);
    let mut own: Vec<i32> = (0..size).collect();
    let mut ranks = vec![0i32; own.len()];
    let (from, to) = (own.as_mut_ptr() as usize, ranks.as_mut_ptr() as usize);
    let done = real_translate(group, own.len(), from, world, to);
    real_group_free(at(&mut group));
    real_group_free(at(&mut world));
    (done && !ranks.contains(&abi().undefined)).then_some(ranks)
}

/// A pending send with its buffer.
pub struct Sending {
    request: usize,
    _bytes: Box<[u8]>,
}

/// Starts a send.
pub fn isend(bytes: Vec<u8>, to: i32, tag: i32, comm: usize) -> Option<Sending> {
    let bytes = bytes.into_boxed_slice();
    let mut request = 0;
    let from = bytes.as_ptr() as usize;
    let done = real_isend(
        from,
        bytes.len(),
        abi().byte,
        to as usize,
        tag as usize,
        comm,
        at(&mut request),
    );
    done.then_some(Sending {
        request,
        _bytes: bytes,
    })
}

/// Returns whether a send is complete.
pub fn is_sent(sending: &mut Sending) -> bool {
    let mut flag: c_int = 0;
    let mut status = Status::default();
    !real_test(at(&mut sending.request), at(&mut flag), at(&mut status)) || flag != 0
}

/// Sends bytes.
pub fn send(bytes: &[u8], to: i32, tag: i32, comm: usize) -> bool {
    real_send(
        bytes.as_ptr() as usize,
        bytes.len(),
        abi().byte,
        to as usize,
        tag as usize,
        comm,
    )
}

fn take(source: i32, tag: i32, comm: usize, status: &mut Status) -> Option<Vec<u8>> {
    let mut count: c_int = 0;
    if !real_get_count(at(status), abi().byte, at(&mut count)) {
        return None;
    }
    let mut bytes = vec![0; usize::try_from(count).unwrap_or(0)];
    let to = bytes.as_mut_ptr() as usize;
    let done = real_recv(
        to,
        bytes.len(),
        abi().byte,
        source as usize,
        tag as usize,
        comm,
        at(status),
    );
    done.then_some(bytes)
}

/// Receives a message if one has arrived. Returns its source, too.
pub fn poll(tag: i32, comm: usize) -> Option<(i32, Vec<u8>)> {
    let mut flag: c_int = 0;
    let mut status = Status::default();
    let any = abi().any_source as usize;
    if !real_iprobe(any, tag as usize, comm, at(&mut flag), at(&mut status)) || flag == 0 {
        return None;
    }
    let (source, _) = abi().status(at(&mut status));
    Some((source, take(source, tag, comm, &mut status)?))
}

/// Waits for the next message of a process.
pub fn receive(source: i32, tag: i32, comm: usize) -> Option<Vec<u8>> {
    let mut status = Status::default();
    if !real_probe(source as usize, tag as usize, comm, at(&mut status)) {
        return None;
    }
    take(source, tag, comm, &mut status)
}

/// Sends a number to each process, and receives one from each.
pub fn exchange(own: &mut [u64], comm: usize) -> Option<Vec<u64>> {
    let mut all = vec![0u64; own.len()];
    let (from, to) = (own.as_mut_ptr() as usize, all.as_mut_ptr() as usize);
    let byte = abi().byte;
    real_alltoall(from, 8, byte, to, 8, byte, comm).then_some(all)
}

/// Returns whether a status is that of a cancelled operation.
pub fn is_cancelled(status: usize) -> bool {
    ask(|place| real_cancelled(status, place)) == Some(1)
}

/// Returns the size of a datatype.
pub fn type_size(datatype: usize) -> u64 {
    let mut size = 0i64;
    real_type_size(datatype, at(&mut size));
    u64::try_from(size).unwrap_or(0)
}

/// Returns the extent of a datatype.
pub fn extent(datatype: usize) -> i64 {
    let (mut lower, mut extent) = (0i64, 0i64);
    real_extent(datatype, at(&mut lower), at(&mut extent));
    extent
}

/// The constructor of a datatype with its arguments.
pub struct Contents {
    /// The combiner, such as `VECTOR`.
    pub combiner: &'static str,
    /// Integers.
    pub ints: Vec<i32>,
    /// Addresses.
    pub addresses: Vec<i64>,
    /// Large counts.
    pub large: Vec<i64>,
    /// Datatypes; the caller must free those that are not predefined.
    pub types: Vec<usize>,
}

/// Returns the constructor of a datatype.
pub fn contents(datatype: usize) -> Option<Contents> {
    let mut counts = [0i64; 4];
    let mut combiner: c_int = 0;
    let [ints, addresses, large, types] = &mut counts;
    if !real_envelope(
        datatype,
        at(ints),
        at(addresses),
        at(large),
        at(types),
        at(&mut combiner),
    ) {
        return None;
    }
    let combiner = abi().combiner(combiner);
    let counts = counts.map(|count| usize::try_from(count).unwrap_or(0));
    let mut ints = vec![0i32; counts[0]];
    let mut addresses = vec![0i64; counts[1]];
    let mut large = vec![0i64; counts[2]];
    let mut types = vec![0u8; counts[3] * abi().stride(ParamKind::Datatype)];
    let is_basic = combiner == "NAMED" || combiner.starts_with("F90") || combiner == "VALUE_INDEX";
    if !is_basic
        && !real_contents(
            datatype,
            counts[0],
            counts[1],
            counts[2],
            counts[3],
            ints.as_mut_ptr() as usize,
            addresses.as_mut_ptr() as usize,
            large.as_mut_ptr() as usize,
            types.as_mut_ptr() as usize,
        )
    {
        return None;
    }
    let count = if is_basic { 0 } else { counts[3] };
    Some(Contents {
        combiner,
        ints,
        addresses,
        large,
        types: abi().handles(ParamKind::Datatype, types.as_mut_ptr() as usize, count),
    })
}

/// Frees a datatype.
pub fn type_free(mut datatype: usize) {
    real_type_free(at(&mut datatype));
}

/// Aborts the job.
pub fn abort() {
    real_abort(abi().world, 1);
}
