//! Shows debuggers the message queues of a process.
//!
//! TotalView, DDT and other debuggers load this library, whose path is in `MPIR_dll_name` of the
//! target process. The library runs in the debugger, reads the target's memory through callbacks,
//! and never writes to it.
//!
//! The target's symbol `weft_places` is a table of names and offsets, which the runtime fills at
//! MPI's start (`mpi_core::places`).

mod comms;
mod interface;
mod operations;
mod target;

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::{self, null_mut};
use std::sync::atomic::{AtomicPtr, Ordering};
use std::vec::IntoIter;

use comms::Communicator;
use interface::{
    MQS_END_OF_LIST, MQS_FIRST_USER_CODE, MQS_INTERFACE_COMPATIBILITY, MQS_INVALID_PROCESS,
    MQS_NO_INFORMATION, MQS_OK, mqs_basic_callbacks, mqs_communicator, mqs_image,
    mqs_image_callbacks, mqs_pending_operation, mqs_process, mqs_process_callbacks, mqs_taddr_t,
};
use operations::Operation;
use target::{Fault, Places, Target};

static BASIC: AtomicPtr<mqs_basic_callbacks> = AtomicPtr::new(null_mut());

/// This library's data about a program.
struct ImageInfo {
    callbacks: *const mqs_image_callbacks,
}

/// This library's data about a process.
struct ProcessInfo {
    target: Target,
    callbacks: *const mqs_process_callbacks,
    places: Places,
    /// The size of `MPI_COMM_WORLD`.
    world: u64,
    comms: Vec<Communicator>,
    /// The index of the iterator's communicator.
    current: usize,
    operations: IntoIter<Operation>,
}

fn basic() -> Option<&'static mqs_basic_callbacks> {
    // SAFETY: null, or the table of mqs_setup_basic_callbacks, whose contract keeps it valid.
    unsafe { BASIC.load(Ordering::Acquire).as_ref() }
}

/// Returns the data that [`mqs_setup_process`] has attached to a process.
///
/// # Safety
/// `process` is from the debugger, which calls this library for it from one thread at a time, and
/// the result is not used beyond the call.
unsafe fn info<'a>(process: *mut mqs_process) -> Result<&'a mut ProcessInfo, Fault> {
    let basic = basic().ok_or(Fault::NotSetUp)?;
    // SAFETY: `get_process_info` is the debugger's, and returns null or the pointer of
    // `mqs_setup_process`.
    unsafe {
        let info = (basic.get_process_info)(process);
        info.cast::<ProcessInfo>().as_mut().ok_or(Fault::NotSetUp)
    }
}

fn code(result: Result<c_int, Fault>) -> c_int {
    result.unwrap_or_else(|fault| fault as c_int)
}

/// Sets the debugger's callbacks.
///
/// # Safety
/// The table stays as long as this library is loaded.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mqs_setup_basic_callbacks(callbacks: *const mqs_basic_callbacks) {
    BASIC.store(callbacks.cast_mut(), Ordering::Release);
}

/// Returns the name and version of this library.
#[unsafe(no_mangle)]
pub extern "C" fn mqs_version_string() -> *mut c_char {
    const TEXT: &str = concat!("Weft ", env!("CARGO_PKG_VERSION"), " message queues\0");
    TEXT.as_ptr().cast_mut().cast()
}

/// Returns the version of the interface.
#[unsafe(no_mangle)]
pub extern "C" fn mqs_version_compatibility() -> c_int {
    MQS_INTERFACE_COMPATIBILITY
}

/// Returns the bytes of an address.
#[unsafe(no_mangle)]
pub extern "C" fn mqs_dll_taddr_width() -> c_int {
    size_of::<mqs_taddr_t>() as c_int
}

/// Returns the text of an error code of this library.
#[unsafe(no_mangle)]
pub extern "C" fn mqs_dll_error_string(error: c_int) -> *mut c_char {
    let own = usize::try_from(error - MQS_FIRST_USER_CODE).ok();
    let text: &CStr = own
        .and_then(|own| Fault::TEXTS.get(own).copied())
        .unwrap_or(c"unknown error");
    text.as_ptr().cast_mut()
}

/// Attaches data to a program.
///
/// # Safety
/// `image` is from the debugger, and `callbacks` stays valid until [`mqs_destroy_image_info`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mqs_setup_image(
    image: *mut mqs_image,
    callbacks: *const mqs_image_callbacks,
) -> c_int {
    let Some(basic) = basic() else {
        return Fault::NotSetUp as c_int;
    };
    let info = Box::into_raw(Box::new(ImageInfo { callbacks }));
    // SAFETY: `put_image_info` is the debugger's, and `image` is from it by the contract.
    unsafe { (basic.put_image_info)(image, info.cast()) };
    MQS_OK
}

/// Accepts every program: whether it has queues shows only at run time, when it has loaded MPI.
///
/// # Safety
/// `text` is null or valid for a write of a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mqs_image_has_queues(
    _image: *mut mqs_image,
    text: *mut *mut c_char,
) -> c_int {
    // SAFETY: `text` is null or valid for writes by the contract.
    unsafe { say(text, None) };
    MQS_OK
}

/// # Safety
/// `text` is null or valid for a write of a pointer.
unsafe fn say(text: *mut *mut c_char, what: Option<&'static CStr>) {
    if !text.is_null() {
        // SAFETY: `text` is not null, and then valid for writes by the contract.
        unsafe { *text = what.map_or(null_mut(), |what| what.as_ptr().cast_mut()) };
    }
}

/// Frees the data of a program.
///
/// # Safety
/// `info` is null or the pointer of [`mqs_setup_image`], and passed here once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mqs_destroy_image_info(info: *mut c_void) {
    if !info.is_null() {
        // SAFETY: by the contract `info` is the box of mqs_setup_image, and passed here once.
        drop(unsafe { Box::from_raw(info.cast::<ImageInfo>()) });
    }
}

/// Attaches data to a process.
///
/// # Safety
/// `process` is from the debugger, and `callbacks` stays valid until [`mqs_destroy_process_info`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mqs_setup_process(
    process: *mut mqs_process,
    callbacks: *const mqs_process_callbacks,
) -> c_int {
    let Some(basic) = basic() else {
        return Fault::NotSetUp as c_int;
    };
    let info = ProcessInfo {
        // SAFETY: the contract keeps both valid as long as `info`, which mqs_destroy_process_info
        // frees.
        target: unsafe { Target::new(process, callbacks) },
        callbacks,
        places: Places::default(),
        world: 0,
        comms: Vec::new(),
        current: 0,
        operations: Vec::new().into_iter(),
    };
    let info = Box::into_raw(Box::new(info));
    // SAFETY: `put_process_info` is the debugger's, and `process` is from it by the contract.
    unsafe { (basic.put_process_info)(process, info.cast()) };
    MQS_OK
}

/// Frees the data of a process.
///
/// # Safety
/// `info` is null or the pointer of [`mqs_setup_process`], and passed here once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mqs_destroy_process_info(info: *mut c_void) {
    if !info.is_null() {
        // SAFETY: by the contract `info` is the box of mqs_setup_process, and passed here once.
        drop(unsafe { Box::from_raw(info.cast::<ProcessInfo>()) });
    }
}

const NO_WEFT: &CStr = c"%s is not a program with Weft's MPI library, or has not loaded it yet";
const NOT_UP: &CStr = c"%s has not called MPI_Init yet, or has called MPI_Finalize";

/// Returns whether the process has queues now.
///
/// # Safety
/// `process` is from the debugger, which has passed it to [`mqs_setup_process`] and calls this
/// library for it from one thread at a time. `text` is null or valid for a write of a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mqs_process_has_queues(
    process: *mut mqs_process,
    text: *mut *mut c_char,
) -> c_int {
    // SAFETY: `process` was set up, and is used by one thread, by the contract.
    let (found, why) = match unsafe { learn(process) } {
        Ok(true) => (MQS_OK, None),
        Ok(false) => (MQS_NO_INFORMATION, Some(NOT_UP)),
        Err(Fault::NoQueue) => (MQS_NO_INFORMATION, Some(NO_WEFT)),
        Err(fault) => (fault as c_int, None),
    };
    // SAFETY: `text` is null or valid for writes by the contract.
    unsafe { say(text, why) };
    found
}

/// Reads the process's table of offsets. Returns `false` while MPI is not initialized there.
///
/// # Safety
/// `process` is from the debugger, which calls this library for it from one thread at a time.
unsafe fn learn(process: *mut mqs_process) -> Result<bool, Fault> {
    // SAFETY: `process` is from the debugger and used by one thread, by the contract.
    let info = unsafe { info(process) }?;
    let basic = basic().ok_or(Fault::NotSetUp)?;
    let mut table: mqs_taddr_t = 0;
    let name = c"weft_places".as_ptr().cast_mut();
    // SAFETY: the callbacks and `process` are the debugger's, which sets the image up first
    // (interface, chapter 6).
    let found = unsafe {
        let image = ((*info.callbacks).get_image)(process);
        let image_info = (basic.get_image_info)(image).cast::<ImageInfo>();
        let callbacks = image_info.as_ref().ok_or(Fault::NotSetUp)?.callbacks;
        ((*callbacks).find_symbol)(image, name, ptr::from_mut(&mut table))
    };
    if found != MQS_OK {
        return Err(Fault::NoQueue);
    }
    let Some(places) = Places::read(&info.target, table)? else {
        return Ok(false);
    };
    info.world = places.get("world.size")?;
    info.places = places;
    Ok(true)
}

/// Reads the communicators again.
///
/// # Safety
/// See [`mqs_process_has_queues`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mqs_update_communicator_list(process: *mut mqs_process) -> c_int {
    let update = || {
        // SAFETY: `process` was set up, and is used by one thread, by the contract.
        if !unsafe { learn(process) }? {
            return Ok(MQS_NO_INFORMATION);
        }
        // SAFETY: `process` was set up, and is used by one thread, by the contract.
        let info = unsafe { info(process) }?;
        info.comms = comms::all(&info.target, &info.places)?;
        Ok(MQS_OK)
    };
    code(update())
}

/// Moves the iterator to the first communicator.
///
/// # Safety
/// See [`mqs_process_has_queues`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mqs_setup_communicator_iterator(process: *mut mqs_process) -> c_int {
    // SAFETY: `process` was set up, and is used by one thread, by the contract.
    code(unsafe { info(process) }.map(|info| {
        info.current = 0;
        at_communicator(info)
    }))
}

fn at_communicator(info: &ProcessInfo) -> c_int {
    if info.current < info.comms.len() {
        MQS_OK
    } else {
        MQS_END_OF_LIST
    }
}

fn current(info: &ProcessInfo) -> Result<&Communicator, Fault> {
    info.comms.get(info.current).ok_or(Fault::NoCommunicator)
}

/// Describes the iterator's communicator.
///
/// # Safety
/// See [`mqs_process_has_queues`]; `to` is valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mqs_get_communicator(
    process: *mut mqs_process,
    to: *mut mqs_communicator,
) -> c_int {
    let get = || {
        // SAFETY: `process` was set up, and is used by one thread, by the contract.
        let comm = current(unsafe { info(process) }?)?;
        let mut answer = mqs_communicator {
            unique_id: comm.context,
            local_rank: comm.rank.into(),
            size: comm.local.len() as i64,
            name: [0; 64],
        };
        operations::copy(&comm.name, &mut answer.name);
        // SAFETY: `to` is valid for a write by the contract.
        unsafe { to.write(answer) };
        Ok(MQS_OK)
    };
    code(get())
}

/// Returns the ranks in `MPI_COMM_WORLD` of the communicator's members.
///
/// # Safety
/// See [`mqs_process_has_queues`]; `to` has room for as many numbers as the communicator has
/// members.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mqs_get_comm_group(process: *mut mqs_process, to: *mut c_int) -> c_int {
    let get = || {
        // SAFETY: `process` was set up, and is used by one thread, by the contract.
        let info = unsafe { info(process) }?;
        for (rank, &member) in current(info)?.local.iter().enumerate() {
            let known = u64::from(member) < info.world;
            let number = c_int::try_from(member).ok().filter(|_| known);
            // SAFETY: `to` has room for a number per member by the contract.
            unsafe { to.add(rank).write(number.unwrap_or(MQS_INVALID_PROCESS)) };
        }
        Ok(MQS_OK)
    };
    code(get())
}

/// Moves the iterator to the next communicator.
///
/// # Safety
/// See [`mqs_process_has_queues`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mqs_next_communicator(process: *mut mqs_process) -> c_int {
    // SAFETY: `process` was set up, and is used by one thread, by the contract.
    code(unsafe { info(process) }.map(|info| {
        info.current += 1;
        at_communicator(info)
    }))
}

/// Starts an iterator over a queue of the communicator.
///
/// # Safety
/// See [`mqs_process_has_queues`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mqs_setup_operation_iterator(
    process: *mut mqs_process,
    which: c_int,
) -> c_int {
    let begin = || {
        // SAFETY: `process` was set up, and is used by one thread, by the contract.
        let info = unsafe { info(process) }?;
        let queue = operations::queue(&info.target, &info.places, current(info)?, which)?;
        info.operations = queue.into_iter();
        Ok(MQS_OK)
    };
    code(begin())
}

/// Describes the next operation of the queue.
///
/// # Safety
/// See [`mqs_process_has_queues`]; `to` is valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mqs_next_operation(
    process: *mut mqs_process,
    to: *mut mqs_pending_operation,
) -> c_int {
    let next = || {
        // SAFETY: `process` was set up, and is used by one thread, by the contract.
        let info = unsafe { info(process) }?;
        let Some(operation) = info.operations.next() else {
            return Ok(MQS_END_OF_LIST);
        };
        // SAFETY: `to` is valid by the contract, and any bits are valid for its integers and bytes.
        operation.show(info.world, unsafe { &mut *to });
        Ok(MQS_OK)
    };
    code(next())
}
