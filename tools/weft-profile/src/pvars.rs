//! Readings of the MPI library's performance variables (MPI-5.0 section 15.3.7).

use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::transmute;
use std::ptr;

use parking_lot::Mutex;

use crate::abi::Abi;
use crate::pmpi::SUCCESS;
use weft_pmpi::Real;

/// Bytes for a name.
const ROOM: usize = 256;

/// The session and the variables that [`begin`] has started.
static COUNTED: Mutex<Counted> = Mutex::new(Counted {
    session: 0,
    variables: Vec::new(),
});

struct Counted {
    session: usize,
    variables: Vec<(String, usize)>,
}

type InitThread = unsafe extern "C" fn(c_int, *mut c_int) -> c_int;
type SessionCreate = unsafe extern "C" fn(*mut usize) -> c_int;
type GetNum = unsafe extern "C" fn(*mut c_int) -> c_int;
type GetInfo = unsafe extern "C" fn(
    c_int,
    *mut c_char,
    *mut c_int,
    *mut c_int,
    *mut c_int,
    *mut usize,
    *mut usize,
    *mut c_char,
    *mut c_int,
    *mut c_int,
    *mut c_int,
    *mut c_int,
    *mut c_int,
) -> c_int;
type HandleAlloc = unsafe extern "C" fn(usize, c_int, *mut c_void, *mut usize, *mut c_int) -> c_int;
type Start = unsafe extern "C" fn(usize, usize) -> c_int;
type Read = unsafe extern "C" fn(usize, usize, *mut c_void) -> c_int;

/// Starts all variables that count up. Variables whose start fails are left out.
pub fn begin(abi: &Abi) {
    static INIT: Real = Real::new(c"PMPI_T_init_thread");
    static CREATE: Real = Real::new(c"PMPI_T_pvar_session_create");
    static NUMBER: Real = Real::new(c"PMPI_T_pvar_get_num");
    // SAFETY: the MPI standard gives the functions these types.
    let (init, create, get_num) = unsafe {
        (
            transmute::<*mut c_void, InitThread>(INIT.get()),
            transmute::<*mut c_void, SessionCreate>(CREATE.get()),
            transmute::<*mut c_void, GetNum>(NUMBER.get()),
        )
    };
    let (mut provided, mut session, mut number) = (0, 0, 0);
    // SAFETY: all pointers are to locals. 0 is MPI_THREAD_SINGLE in all ABIs.
    let failed = unsafe {
        init(0, &raw mut provided) != SUCCESS
            || create(&raw mut session) != SUCCESS
            || get_num(&raw mut number) != SUCCESS
    };
    if failed {
        return;
    }
    let mut counted = COUNTED.lock();
    counted.session = session;
    counted.variables = (0..number)
        .filter_map(|index| variable(abi, session, index))
        .collect();
}

/// Starts a variable, if it counts up.
fn variable(abi: &Abi, session: usize, index: c_int) -> Option<(String, usize)> {
    static INFO: Real = Real::new(c"PMPI_T_pvar_get_info");
    static ALLOC: Real = Real::new(c"PMPI_T_pvar_handle_alloc");
    static START: Real = Real::new(c"PMPI_T_pvar_start");
    // SAFETY: the MPI standard gives the functions these types.
    let (info, alloc, start) = unsafe {
        (
            transmute::<*mut c_void, GetInfo>(INFO.get()),
            transmute::<*mut c_void, HandleAlloc>(ALLOC.get()),
            transmute::<*mut c_void, Start>(START.get()),
        )
    };
    let mut name = [0_u8; ROOM];
    let mut room = ROOM as c_int;
    let mut numbers = [0; 7];
    let [
        verbosity,
        class,
        help_room,
        bind,
        readonly,
        continuous,
        atomic,
    ] = numbers.each_mut();
    // In MPICH's ABI only the lower half of a handle is written.
    let (mut datatype, mut names) = (0, 0);
    // SAFETY: the pointers are to locals; `name` has ROOM bytes, as `room` says, and the help text
    // is null.
    let code = unsafe {
        info(
            index,
            name.as_mut_ptr().cast(),
            &raw mut room,
            verbosity,
            class,
            &raw mut datatype,
            &raw mut names,
            ptr::null_mut(),
            help_room,
            bind,
            readonly,
            continuous,
            atomic,
        )
    };
    if code != SUCCESS || datatype != abi.unsigned_long || !abi.counters.contains(&numbers[1]) {
        return None;
    }
    let (mut handle, mut count) = (0, 0);
    // SAFETY: Weft's variables are bound to no object, so null is valid; the other pointers are to
    // locals.
    let code = unsafe {
        alloc(
            session,
            index,
            ptr::null_mut(),
            &raw mut handle,
            &raw mut count,
        )
    };
    if code != SUCCESS || count != 1 {
        return None;
    }
    if numbers[5] == 0 {
        // SAFETY: session and handle are from the tool interface and not freed yet.
        let code = unsafe { start(session, handle) };
        if code != SUCCESS {
            return None;
        }
    }
    let name = CStr::from_bytes_until_nul(&name).ok()?;
    Some((name.to_string_lossy().into_owned(), handle))
}

/// Reads all variables, in the order of [`names`], which is the same on all ranks.
pub fn read() -> Vec<u64> {
    static READ: Real = Real::new(c"PMPI_T_pvar_read");
    // SAFETY: the MPI standard gives the function this type.
    let read = unsafe { transmute::<*mut c_void, Read>(READ.get()) };
    let counted = COUNTED.lock();
    let values = counted.variables.iter().map(|(_, handle)| {
        let mut value = 0_u64;
        // SAFETY: session and handle are those of `begin`, which selects variables of one 64-bit
        // number.
        unsafe { read(counted.session, *handle, (&raw mut value).cast()) };
        value
    });
    values.collect()
}

/// Returns the names of the started variables.
pub fn names() -> Vec<String> {
    let counted = COUNTED.lock();
    counted
        .variables
        .iter()
        .map(|(name, _)| name.clone())
        .collect()
}
