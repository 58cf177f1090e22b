//! Shows debuggers the message queues of a process: TotalView, DDT and others load this library (`MPIR_dll_name` in
//! the process says where it is) and call it. It does not run in the process that is looked at: it reads that one's
//! memory by the debugger's callbacks, and changes nothing.
//!
//! Where things are it learns from a table in the process, `weft_places`: names and numbers that the runtime has put
//! down when MPI came up (`mpi_core::layout`).

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

/// What is kept with a program.
struct ImageInfo {
    callbacks: *const mqs_image_callbacks,
}

/// What is kept with a process.
struct ProcessInfo {
    target: Target,
    callbacks: *const mqs_process_callbacks,
    places: Places,
    /// How many processes `MPI_COMM_WORLD` has.
    world: u64,
    comms: Vec<Communicator>,
    /// Which of them is looked at.
    current: usize,
    operations: IntoIter<Operation>,
}

fn basic() -> Option<&'static mqs_basic_callbacks> {
    // SAFETY: null, or the debugger's table, which stays (interface, section 5.1).
    unsafe { BASIC.load(Ordering::Acquire).as_ref() }
}

/// What was kept with a process.
///
/// # Safety
/// The process is one of the debugger's, who calls this library for it from one thread at a time.
unsafe fn info<'a>(process: *mut mqs_process) -> Result<&'a mut ProcessInfo, Fault> {
    let basic = basic().ok_or(Fault::NotSetUp)?;
    // SAFETY: the debugger's own function and process; it gives back what `mqs_setup_process` gave it.
    unsafe {
        let info = (basic.get_process_info)(process);
        info.cast::<ProcessInfo>().as_mut().ok_or(Fault::NotSetUp)
    }
}

fn code(result: Result<c_int, Fault>) -> c_int {
    result.unwrap_or_else(|fault| fault as c_int)
}

/// Takes the debugger's functions.
///
/// # Safety
/// The table stays as long as this library is loaded.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mqs_setup_basic_callbacks(callbacks: *const mqs_basic_callbacks) {
    BASIC.store(callbacks.cast_mut(), Ordering::Release);
}

/// Who this is.
#[unsafe(no_mangle)]
pub extern "C" fn mqs_version_string() -> *mut c_char {
    const TEXT: &str = concat!("Weft ", env!("CARGO_PKG_VERSION"), " message queues\0");
    TEXT.as_ptr().cast_mut().cast()
}

/// The version of the interface.
#[unsafe(no_mangle)]
pub extern "C" fn mqs_version_compatibility() -> c_int {
    MQS_INTERFACE_COMPATIBILITY
}

/// How long an address is.
#[unsafe(no_mangle)]
pub extern "C" fn mqs_dll_taddr_width() -> c_int {
    size_of::<mqs_taddr_t>() as c_int
}

/// The text for one of this library's codes.
#[unsafe(no_mangle)]
pub extern "C" fn mqs_dll_error_string(error: c_int) -> *mut c_char {
    let own = usize::try_from(error - MQS_FIRST_USER_CODE).ok();
    let text: &CStr = own
        .and_then(|own| Fault::TEXTS.get(own).copied())
        .unwrap_or(c"unknown error");
    text.as_ptr().cast_mut()
}

/// Begins with a program.
///
/// # Safety
/// Both are the debugger's; the table stays as long as the program is known.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mqs_setup_image(
    image: *mut mqs_image,
    callbacks: *const mqs_image_callbacks,
) -> c_int {
    let Some(basic) = basic() else {
        return Fault::NotSetUp as c_int;
    };
    let info = Box::into_raw(Box::new(ImageInfo { callbacks }));
    // SAFETY: the debugger's own function and program.
    unsafe { (basic.put_image_info)(image, info.cast()) };
    MQS_OK
}

/// Whether a program has queues is seen when it runs: the library that has them is loaded then.
///
/// # Safety
/// `text` is a place for a pointer, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mqs_image_has_queues(
    _image: *mut mqs_image,
    text: *mut *mut c_char,
) -> c_int {
    // SAFETY: the caller's contract.
    unsafe { say(text, None) };
    MQS_OK
}

/// # Safety
/// `text` is a place for a pointer, or null.
unsafe fn say(text: *mut *mut c_char, what: Option<&'static CStr>) {
    if !text.is_null() {
        // SAFETY: the caller's contract.
        unsafe { *text = what.map_or(null_mut(), |what| what.as_ptr().cast_mut()) };
    }
}

/// Ends with a program.
///
/// # Safety
/// What `mqs_setup_image` made, once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mqs_destroy_image_info(info: *mut c_void) {
    if !info.is_null() {
        // SAFETY: the caller's contract.
        drop(unsafe { Box::from_raw(info.cast::<ImageInfo>()) });
    }
}

/// Begins with a process.
///
/// # Safety
/// Both are the debugger's; the table stays as long as the process is known.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mqs_setup_process(
    process: *mut mqs_process,
    callbacks: *const mqs_process_callbacks,
) -> c_int {
    let Some(basic) = basic() else {
        return Fault::NotSetUp as c_int;
    };
    let info = ProcessInfo {
        // SAFETY: the caller's contract.
        target: unsafe { Target::new(process, callbacks) },
        callbacks,
        places: Places::default(),
        world: 0,
        comms: Vec::new(),
        current: 0,
        operations: Vec::new().into_iter(),
    };
    let info = Box::into_raw(Box::new(info));
    // SAFETY: the debugger's own function and process.
    unsafe { (basic.put_process_info)(process, info.cast()) };
    MQS_OK
}

/// Ends with a process.
///
/// # Safety
/// What `mqs_setup_process` made, once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mqs_destroy_process_info(info: *mut c_void) {
    if !info.is_null() {
        // SAFETY: the caller's contract.
        drop(unsafe { Box::from_raw(info.cast::<ProcessInfo>()) });
    }
}

const NO_WEFT: &CStr = c"%s is not a program with Weft's MPI library, or has not loaded it yet";
const NOT_UP: &CStr = c"%s has not called MPI_Init yet, or has called MPI_Finalize";

/// Whether the process has queues now.
///
/// # Safety
/// As for all that follow: the process was set up, and the debugger calls for it from one thread at a time. `text` is
/// a place for a pointer, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mqs_process_has_queues(
    process: *mut mqs_process,
    text: *mut *mut c_char,
) -> c_int {
    // SAFETY: the caller's contract.
    let (found, why) = match unsafe { learn(process) } {
        Ok(true) => (MQS_OK, None),
        Ok(false) => (MQS_NO_INFORMATION, Some(NOT_UP)),
        Err(Fault::NoQueue) => (MQS_NO_INFORMATION, Some(NO_WEFT)),
        Err(fault) => (fault as c_int, None),
    };
    // SAFETY: the caller's contract.
    unsafe { say(text, why) };
    found
}

/// Reads where everything is; false while MPI is not up.
///
/// # Safety
/// As for `info`.
unsafe fn learn(process: *mut mqs_process) -> Result<bool, Fault> {
    // SAFETY: the caller's contract.
    let info = unsafe { info(process) }?;
    let basic = basic().ok_or(Fault::NotSetUp)?;
    let mut table: mqs_taddr_t = 0;
    let name = c"weft_places".as_ptr().cast_mut();
    // SAFETY: the debugger's own functions and process; the program was set up before (interface, chapter 6).
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

/// Has a new look at the communicators.
///
/// # Safety
/// See [`mqs_process_has_queues`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mqs_update_communicator_list(process: *mut mqs_process) -> c_int {
    let update = || {
        // SAFETY: the caller's contract.
        if !unsafe { learn(process) }? {
            return Ok(MQS_NO_INFORMATION);
        }
        // SAFETY: the caller's contract.
        let info = unsafe { info(process) }?;
        info.comms = comms::all(&info.target, &info.places)?;
        Ok(MQS_OK)
    };
    code(update())
}

/// Goes to the first communicator.
///
/// # Safety
/// See [`mqs_process_has_queues`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mqs_setup_communicator_iterator(process: *mut mqs_process) -> c_int {
    // SAFETY: the caller's contract.
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

/// Tells of the communicator.
///
/// # Safety
/// See [`mqs_process_has_queues`]; `to` is a place for the answer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mqs_get_communicator(
    process: *mut mqs_process,
    to: *mut mqs_communicator,
) -> c_int {
    let get = || {
        // SAFETY: the caller's contract.
        let comm = current(unsafe { info(process) }?)?;
        let mut answer = mqs_communicator {
            unique_id: comm.context,
            local_rank: comm.rank.into(),
            size: comm.local.len() as i64,
            name: [0; 64],
        };
        operations::copy(&comm.name, &mut answer.name);
        // SAFETY: the caller's contract.
        unsafe { to.write(answer) };
        Ok(MQS_OK)
    };
    code(get())
}

/// The ranks in `MPI_COMM_WORLD` of the communicator's members.
///
/// # Safety
/// See [`mqs_process_has_queues`]; `to` has room for as many numbers as the communicator has members.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mqs_get_comm_group(process: *mut mqs_process, to: *mut c_int) -> c_int {
    let get = || {
        // SAFETY: the caller's contract.
        let info = unsafe { info(process) }?;
        for (rank, &member) in current(info)?.local.iter().enumerate() {
            let known = u64::from(member) < info.world;
            let number = c_int::try_from(member).ok().filter(|_| known);
            // SAFETY: the caller's contract.
            unsafe { to.add(rank).write(number.unwrap_or(MQS_INVALID_PROCESS)) };
        }
        Ok(MQS_OK)
    };
    code(get())
}

/// Goes to the next communicator.
///
/// # Safety
/// See [`mqs_process_has_queues`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mqs_next_communicator(process: *mut mqs_process) -> c_int {
    // SAFETY: the caller's contract.
    code(unsafe { info(process) }.map(|info| {
        info.current += 1;
        at_communicator(info)
    }))
}

/// Chooses one of the communicator's queues.
///
/// # Safety
/// See [`mqs_process_has_queues`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mqs_setup_operation_iterator(
    process: *mut mqs_process,
    which: c_int,
) -> c_int {
    let begin = || {
        // SAFETY: the caller's contract.
        let info = unsafe { info(process) }?;
        let queue = operations::queue(&info.target, &info.places, current(info)?, which)?;
        info.operations = queue.into_iter();
        Ok(MQS_OK)
    };
    code(begin())
}

/// Tells of the next one in it.
///
/// # Safety
/// See [`mqs_process_has_queues`]; `to` is a place for the answer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mqs_next_operation(
    process: *mut mqs_process,
    to: *mut mqs_pending_operation,
) -> c_int {
    let next = || {
        // SAFETY: the caller's contract.
        let info = unsafe { info(process) }?;
        let Some(operation) = info.operations.next() else {
            return Ok(MQS_END_OF_LIST);
        };
        // SAFETY: the caller's contract: numbers and texts, of which any bits are good.
        operation.show(info.world, unsafe { &mut *to });
        Ok(MQS_OK)
    };
    code(next())
}
