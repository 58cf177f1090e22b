//! Raising of errors: from a `Result` to the error handler and the error code.

use std::cell::Cell;
use std::ffi::{CStr, c_char, c_int, c_long, c_void};
use std::fmt::{self, Write as _};
use std::mem::transmute;
use std::sync::atomic::Ordering;
use std::time::Duration;

use mpi_core::{Class, Error};
use mpi_runtime::handles::errhandler;
use mpi_runtime::handles::files;
use mpi_runtime::handles::handler::{self, Callback, Caller, Function, Handler};
use mpi_runtime::handles::sessions;
use mpi_runtime::handles::wins;
use mpi_runtime::handles::wins::WinObject;
use mpi_runtime::lifecycle::fatal;
use mpi_runtime::lifecycle::identity::Identity;
use mpi_runtime::lifecycle::runtime::runtime;
use mpi_runtime::tool::events;

use crate::abi::{
    self, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_BOTTOM, MPI_COMM_NULL, MPI_COMM_SELF, MPI_COMM_WORLD,
    MPI_Comm, MPI_Errhandler, MPI_FILE_NULL, MPI_File, MPI_Fint, MPI_IN_PLACE,
    MPI_MAX_ERROR_STRING, MPI_PROC_NULL, MPI_ROOT, MPI_SESSION_NULL, MPI_SUCCESS, MPI_Session,
    MPI_WIN_NULL, MPI_Win, error_name, handle_name,
};
use crate::abi::{
    MPI_Comm_errhandler_function, MPI_File_errhandler_function, MPI_Session_errhandler_function,
    MPI_Win_errhandler_function, MPIX_Comm_errhandler_function_x, MPIX_File_errhandler_function_x,
    MPIX_Session_errhandler_function_x, MPIX_Win_errhandler_function_x,
};
use crate::api::standard_abi;
use crate::codes;
use crate::outward::{Outward, OutwardFile};

/// The object that an error is raised on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum On {
    /// A communicator.
    Comm(MPI_Comm),
    /// A window.
    Win(MPI_Win),
    /// A file; `MPI_FILE_NULL` if none is open yet.
    File(MPI_File),
    /// A session.
    Session(MPI_Session),
    /// A communicator that the call makes, with the error handler that the program gives for it.
    NewComm(MPI_Errhandler),
    /// A session that the call makes, with the error handler that the program gives for it.
    NewSession(MPI_Errhandler),
    /// No object.
    Process,
}

/// An argument of a function, for messages.
#[derive(Clone, Copy, Debug)]
pub enum Arg {
    /// The address of a buffer.
    Buffer(*const c_void),
    /// Another address.
    Pointer(*const c_void),
    /// An integer.
    Int(c_int),
    /// A long integer.
    Long(c_long),
    /// A rank.
    Rank(c_int),
    /// A tag.
    Tag(c_int),
    /// A handle, with the name of its type.
    Handle(&'static str, c_int),
    /// A string of the program.
    Text(*const c_char),
}

/// Delay before a process ends because of the loss of another one.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// Calls the error handler of `on` for an error in `function`. Returns the code that the function
/// returns.
#[cold]
#[inline(never)]
pub fn raise(error: Error, function: &'static str, on: On, args: &[(&'static str, Arg)]) -> c_int {
    let on = error
        .origin()
        .map_or(on, |owner| match files::of_owner(owner) {
            Some(file) => On::File(file),
            None => On::Comm(owner as MPI_Comm),
        });
    let error = fatal::with_cause(error);
    let class = class_code(error.class());
    events::raise(events::ERROR, [class, 0, 0]);
    if matches!(
        error.class(),
        Class::ProcFailed | Class::ProcAborted | Class::Revoked
    ) && let Ok(runtime) = runtime()
    {
        // Programs repeat calls that fail at once; progress lets them receive, and send,
        // revocations meanwhile.
        let _ = runtime.process.poll_all();
        if let On::Win(win) = on
            && let Ok(object) = wins::hold(win)
        {
            object.window.mark_failures_raised(&runtime.process);
        }
    }
    let handler = match (error.origin(), on) {
        (Some(_), On::Comm(comm)) => of_owner(comm),
        _ => lookup(on),
    };
    if let Handler::Fatal | Handler::Abort = handler {
        fatal::complain(&message(&error, function, on, args, &handler));
        if matches!(error.class(), Class::ProcFailed) {
            // The lost process may be printing the cause, and is killed when this one ends.
            std::thread::sleep(LAST_WORDS);
        }
        let own = match (&handler, on) {
            (Handler::Abort, On::Comm(comm)) => {
                runtime().ok().and_then(|it| it.comm_arc(comm).ok())
            }
            _ => None,
        };
        match own {
            Some(comm) => fatal::abort_on(&comm.comm, class),
            None => fatal::abort_by(class, &error),
        }
    }
    let code = match error.class() {
        // Codes of the program are returned unchanged.
        Class::User(code) => code,
        _ => codes::remember(class, || {
            summary(&error, &format!("; in {function}({})", Arguments(args)))
        }),
    };
    let returned = call(&handler, on, code);
    THROWN.set(matches!(handler, Handler::Throw));
    returned
}

thread_local! {
    /// Whether the last error of this thread is to be thrown.
    static THROWN: Cell<bool> = const { Cell::new(false) };
}

/// Returns whether the last error that a function returned to this thread had the handler
/// `MPI::ERRORS_THROW_EXCEPTIONS`.
///
/// Only `raise` knows whose handler that was, for example in a wait for an operation on a
/// communicator that has been freed.
pub fn take_thrown() -> bool {
    THROWN.replace(false)
}

/// Returns a code for an error in a status: the function that began the operation is not known any
/// more.
pub fn code(error: &Error) -> c_int {
    let error = fatal::with_cause(error.clone());
    match error.class() {
        Class::User(code) => code,
        class => codes::remember(class_code(class), || summary(&error, "")),
    }
}

/// Returns the handler for errors on an object.
fn lookup(on: On) -> Handler {
    match on {
        On::File(file) => match files::hold(file) {
            Ok(object) => object.errhandler.lock().handler(),
            Err(_) => of_files(),
        },
        On::Comm(comm) => of_comm(comm),
        On::Win(win) => match wins::hold(win) {
            Ok(object) => of_window(&object),
            Err(_) => of_process().0,
        },
        On::Session(session) => match sessions::hold(session) {
            Ok(object) => object.errhandler.lock().handler(),
            Err(_) => of_process().0,
        },
        On::NewComm(errhandler) | On::NewSession(errhandler) => of_new(on, errhandler),
        On::Process => of_process().0,
    }
}

/// Returns the handler for an object that is being made, unless it does not exist or is for objects
/// of another type: a function of the program must not be called with a handle of another type.
fn of_new(on: On, errhandler: MPI_Errhandler) -> Handler {
    let given = errhandler::attach(errhandler).map(|attached| attached.handler());
    match (given, on) {
        (Ok(given @ (Handler::Fatal | Handler::Abort | Handler::Return | Handler::Throw)), _)
        | (Ok(given @ Handler::Comm(_)), On::NewComm(_))
        | (Ok(given @ Handler::Session(_)), On::NewSession(_)) => given,
        _ => of_process().0,
    }
}

/// Returns the handler of a window.
///
/// A window whose handler was not set is fatal, but not in programs that have errors of
/// `MPI_COMM_WORLD` returned: they expect the same of windows, as in all other libraries of this
/// ABI.
fn of_window(window: &WinObject) -> Handler {
    let own = window.errhandler.lock().handler();
    if window.handler_chosen.load(Ordering::Relaxed) {
        return own;
    }
    match of_process().0 {
        returns @ (Handler::Return | Handler::Throw) => returns,
        _ => own,
    }
}

/// Returns the handler of a communicator; the process's if it does not exist.
fn of_comm(comm: c_int) -> Handler {
    match runtime().and_then(|runtime| runtime.comm_arc(comm)) {
        Ok(object) => object.errhandler.lock().handler(),
        Err(_) => of_process().0,
    }
}

/// Returns the handler of the communicator that an operation was started on, which may have been
/// freed.
fn of_owner(comm: c_int) -> Handler {
    let runtime = runtime().ok();
    let own = runtime.and_then(|runtime| runtime.handler_of_owner(comm));
    own.unwrap_or_else(|| of_process().0)
}

fn exists(comm: MPI_Comm) -> bool {
    runtime().is_ok_and(|runtime| runtime.comm_arc(comm).is_ok())
}

/// Returns the handler for errors on no object, with the communicator to call it for.
///
/// It is that of `MPI_COMM_SELF` since MPI-4.0 (MPI-4.1 section 9.3), or that of `MPI_COMM_WORLD`
/// until the program sets the former, as programs for MPI-3.1 expect, or the initial one while
/// neither exists.
fn of_process() -> (Handler, MPI_Comm) {
    let Some(runtime) = runtime().ok().filter(|runtime| runtime.has_world()) else {
        return (handler::initial().handler(), MPI_COMM_NULL);
    };
    let (object, comm) = if runtime.self_handler_chosen.load(Ordering::Relaxed) {
        (&runtime.self_comm, MPI_COMM_SELF)
    } else {
        (&runtime.world, MPI_COMM_WORLD)
    };
    (object.errhandler.lock().handler(), comm)
}

/// Returns the handler of files that are not open; before `MPI_Init` and after `MPI_Finalize` the
/// initial one.
fn of_files() -> Handler {
    match runtime() {
        Ok(runtime) => runtime.file_errhandler.lock().handler(),
        Err(_) => Handler::Return,
    }
}

/// Returns the text of `MPI_Error_string`: the class, the detail, and as much of the place as fits.
fn summary(error: &Error, place: &str) -> String {
    let name = error_name(class_code(error.class())).unwrap_or("an error");
    let mut text = format!("{name}: {}{place}", error.detail());
    let room = MPI_MAX_ERROR_STRING as usize - 1;
    if text.len() > room {
        let end = (0..=room - 3)
            .rfind(|end| text.is_char_boundary(*end))
            .unwrap_or(0);
        text.truncate(end);
        text.push_str("...");
    }
    text
}

/// The arguments of a call, for messages.
struct Arguments<'a>(&'a [(&'static str, Arg)]);

impl fmt::Display for Arguments<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (name, value)) in self.0.iter().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            write!(f, "{comma}{name}={value}")?;
        }
        Ok(())
    }
}

/// An error handler in Fortran: takes the addresses of the integer that represents the object, and
/// of the code.
type Subroutine = unsafe extern "C" fn(*mut MPI_Fint, *mut c_int);

/// Calls the program's own handler. Returns the code that the function returns.
///
/// The handler gets the code's address and may change it (MPI-5.0 section 9.3.1). After a C++
/// handler the code is success: it throws an exception, or has dealt with the error, and the C++
/// library would call it again otherwise.
fn call(handler: &Handler, on: On, mut code: c_int) -> c_int {
    let caller = handler.caller();
    let proxy = match caller {
        Some(Caller::Proxy(proxy)) => Some(proxy),
        Some(Caller::Fortran) | None => None,
    };
    match handler {
        Handler::Fatal | Handler::Abort | Handler::Return | Handler::Throw => {}
        Handler::Comm(callback) => {
            let mut comm = Outward::comm(match on {
                On::Comm(comm) if exists(comm) => comm,
                _ => of_process().1,
            });
            let place = &raw mut comm;
            match (callback, proxy) {
                // SAFETY: the program made the handler of this type, with the state; it takes
                // handle and code by value (section 8.3).
                (Callback::WithState(function, kept), _) => unsafe {
                    let function =
                        transmute::<Function, MPIX_Comm_errhandler_function_x>(*function);
                    function(comm, code, kept.state());
                },
                // SAFETY: the program made the handler of this type; it takes the addresses of
                // handle and code, here local variables (section 8.3).
                (Callback::Plain(function), None) => unsafe {
                    let function = transmute::<Function, MPI_Comm_errhandler_function>(*function);
                    function(place, &raw mut code);
                },
                // SAFETY: the companion library provided the proxy for this function; it takes the
                // addresses of handle and code, here local variables.
                (Callback::Plain(function), Some(proxy)) => unsafe {
                    proxy(0, place.cast(), &raw mut code, *function);
                },
            }
        }
        Handler::Win(callback) => {
            let mut win = Outward::win(match on {
                On::Win(win) => win,
                _ => MPI_WIN_NULL,
            });
            let place = &raw mut win;
            match (callback, proxy) {
                // SAFETY: the program made the handler of this type, with the state; it takes
                // handle and code by value (section 8.3).
                (Callback::WithState(function, kept), _) => unsafe {
                    let function = transmute::<Function, MPIX_Win_errhandler_function_x>(*function);
                    function(win, code, kept.state());
                },
                // SAFETY: the program made the handler of this type; it takes the addresses of
                // handle and code, here local variables (section 8.3).
                (Callback::Plain(function), None) => unsafe {
                    let function = transmute::<Function, MPI_Win_errhandler_function>(*function);
                    function(place, &raw mut code);
                },
                // SAFETY: the companion library provided the proxy for this function; it takes the
                // addresses of handle and code, here local variables.
                (Callback::Plain(function), Some(proxy)) => unsafe {
                    proxy(2, place.cast(), &raw mut code, *function);
                },
            }
        }
        Handler::File(callback) => {
            let file = match on {
                On::File(file) => file,
                _ => MPI_FILE_NULL,
            };
            let mut outward = OutwardFile::new(file);
            let place = &raw mut outward;
            match (callback, caller) {
                // SAFETY: the program made the handler of this type, with the state; it takes
                // handle and code by value (section 8.3).
                (Callback::WithState(function, kept), _) => unsafe {
                    let function =
                        transmute::<Function, MPIX_File_errhandler_function_x>(*function);
                    function(outward, code, kept.state());
                },
                // SAFETY: the program made the handler of this type; it takes the addresses of
                // handle and code, here local variables (section 8.3).
                (Callback::Plain(function), None) => unsafe {
                    let function = transmute::<Function, MPI_File_errhandler_function>(*function);
                    function(place, &raw mut code);
                },
                // Unlike other handles, a file's is no integer in C.
                (Callback::Plain(function), Some(Caller::Fortran)) => {
                    let mut number = standard_abi::file_toint(file);
                    // SAFETY: the Fortran library registered the function as a subroutine, which
                    // takes the addresses of two integers, here local variables.
                    unsafe {
                        let function = transmute::<Function, Subroutine>(*function);
                        function(&raw mut number, &raw mut code);
                    }
                }
                // SAFETY: the companion library provided the proxy for this function; it takes the
                // addresses of handle and code, here local variables.
                (Callback::Plain(function), Some(Caller::Proxy(proxy))) => unsafe {
                    proxy(1, place.cast(), &raw mut code, *function);
                },
            }
        }
        Handler::Session(callback) => {
            let mut session = Outward::session(match on {
                On::Session(session) => session,
                _ => MPI_SESSION_NULL,
            });
            match callback {
                // SAFETY: the program made the handler of this type, with the state; it takes
                // handle and code by value (section 8.3).
                Callback::WithState(function, kept) => unsafe {
                    let function =
                        transmute::<Function, MPIX_Session_errhandler_function_x>(*function);
                    function(session, code, kept.state());
                },
                // SAFETY: the program made the handler of this type; it takes the addresses of
                // handle and code, here local variables (section 8.3).
                Callback::Plain(function) => unsafe {
                    let function =
                        transmute::<Function, MPI_Session_errhandler_function>(*function);
                    function(&raw mut session, &raw mut code);
                },
            }
        }
    }
    // In Open MPI's ABI it is Fortran that has proxies.
    if proxy.is_some() && cfg!(not(openmpi_abi)) {
        MPI_SUCCESS
    } else {
        code
    }
}

/// Returns the message of a fatal error.
fn message(
    error: &Error,
    function: &str,
    on: On,
    args: &[(&'static str, Arg)],
    handler: &Handler,
) -> String {
    let code = class_code(error.class());
    let mut text = format!(
        "Weft: {function}({}) failed on {Identity}:\n",
        Arguments(args)
    );
    let detail = error.detail();
    let stop = if detail.ends_with(['.', '!', '?', '\n']) {
        ""
    } else {
        "."
    };
    match error_name(code) {
        Some(name) => {
            let _ = writeln!(text, "      {name}: {detail}{stop}");
        }
        None => {
            let what = codes::text_of(code).filter(|text| !text.is_empty());
            let what = what.map_or(String::new(), |what| format!(" ({what})"));
            let _ = writeln!(text, "      error {code}{what}: {detail}{stop}");
        }
    }
    let whose = match on {
        On::Comm(comm) => format!(" of {}", Arg::Handle("MPI_Comm", comm)),
        On::Win(_) => " of the window".to_owned(),
        On::File(_) => " of the file".to_owned(),
        On::Session(_) => " of the session".to_owned(),
        On::NewComm(_) | On::NewSession(_) | On::Process => String::new(),
    };
    let name = match handler {
        Handler::Abort => "MPI_ERRORS_ABORT",
        _ => "MPI_ERRORS_ARE_FATAL",
    };
    let _ = writeln!(
        text,
        "      The job ends, because the error handler{whose} is {name}."
    );
    text
}

impl fmt::Display for Arg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Arg::Buffer(address) if address == MPI_IN_PLACE.cast_const() => {
                f.write_str("MPI_IN_PLACE")
            }
            Arg::Buffer(address) if address == MPI_BOTTOM.cast_const() => f.write_str("NULL"),
            Arg::Pointer(address) if address.is_null() => f.write_str("NULL"),
            Arg::Buffer(address) | Arg::Pointer(address) => write!(f, "{address:p}"),
            Arg::Rank(MPI_PROC_NULL) => f.write_str("MPI_PROC_NULL"),
            Arg::Rank(MPI_ANY_SOURCE) => f.write_str("MPI_ANY_SOURCE"),
            Arg::Rank(MPI_ROOT) => f.write_str("MPI_ROOT"),
            Arg::Tag(MPI_ANY_TAG) => f.write_str("MPI_ANY_TAG"),
            Arg::Int(value) | Arg::Rank(value) | Arg::Tag(value) => write!(f, "{value}"),
            Arg::Long(value) => write!(f, "{value}"),
            Arg::Handle(handle_type, value) => match handle_name(handle_type, value) {
                Some(name) => f.write_str(name),
                None => write!(f, "{value:#x}"),
            },
            Arg::Text(text) if text.is_null() => f.write_str("NULL"),
            Arg::Text(text) => {
                // SAFETY: the pointer is not NULL, as checked above, and the program guarantees a
                // string that ends in NUL.
                let text = unsafe { CStr::from_ptr(text) }.to_string_lossy();
                let mut chars = text.chars();
                let beginning: String = chars.by_ref().take(80).collect();
                let more = if chars.next().is_some() { "..." } else { "" };
                write!(f, "{beginning:?}{more}")
            }
        }
    }
}

/// Returns the ABI's number of an error class.
pub fn class_code(class: Class) -> c_int {
    match class {
        // Open MPI's ABI has no constants for these.
        Class::Errhandler | Class::Stream if cfg!(openmpi_abi) => abi::MPI_ERR_ARG,
        Class::Abi if cfg!(openmpi_abi) => abi::MPI_ERR_OTHER,
        Class::Buffer => abi::MPI_ERR_BUFFER,
        Class::Count => abi::MPI_ERR_COUNT,
        Class::Type => abi::MPI_ERR_TYPE,
        Class::Tag => abi::MPI_ERR_TAG,
        Class::Comm => abi::MPI_ERR_COMM,
        Class::Rank => abi::MPI_ERR_RANK,
        Class::Request => abi::MPI_ERR_REQUEST,
        Class::Root => abi::MPI_ERR_ROOT,
        Class::Group => abi::MPI_ERR_GROUP,
        Class::Op => abi::MPI_ERR_OP,
        Class::Topology => abi::MPI_ERR_TOPOLOGY,
        Class::Dims => abi::MPI_ERR_DIMS,
        Class::Arg => abi::MPI_ERR_ARG,
        Class::Unknown => abi::MPI_ERR_UNKNOWN,
        Class::Truncate => abi::MPI_ERR_TRUNCATE,
        Class::Other => abi::MPI_ERR_OTHER,
        Class::Intern => abi::MPI_ERR_INTERN,
        Class::InStatus => abi::MPI_ERR_IN_STATUS,
        Class::Pending => abi::MPI_ERR_PENDING,
        Class::Abi => abi::MPI_ERR_ABI,
        Class::Keyval => abi::MPI_ERR_KEYVAL,
        Class::NoMem => abi::MPI_ERR_NO_MEM,
        Class::Base => abi::MPI_ERR_BASE,
        Class::InfoKey => abi::MPI_ERR_INFO_KEY,
        Class::InfoValue => abi::MPI_ERR_INFO_VALUE,
        Class::InfoNokey => abi::MPI_ERR_INFO_NOKEY,
        Class::Info => abi::MPI_ERR_INFO,
        Class::Spawn => abi::MPI_ERR_SPAWN,
        Class::Port => abi::MPI_ERR_PORT,
        Class::Service => abi::MPI_ERR_SERVICE,
        Class::Name => abi::MPI_ERR_NAME,
        Class::Win => abi::MPI_ERR_WIN,
        Class::Size => abi::MPI_ERR_SIZE,
        Class::Disp => abi::MPI_ERR_DISP,
        Class::Locktype => abi::MPI_ERR_LOCKTYPE,
        Class::Assert => abi::MPI_ERR_ASSERT,
        Class::RmaConflict => abi::MPI_ERR_RMA_CONFLICT,
        Class::RmaSync => abi::MPI_ERR_RMA_SYNC,
        Class::RmaRange => abi::MPI_ERR_RMA_RANGE,
        Class::RmaAttach => abi::MPI_ERR_RMA_ATTACH,
        Class::RmaShared => abi::MPI_ERR_RMA_SHARED,
        Class::RmaFlavor => abi::MPI_ERR_RMA_FLAVOR,
        Class::File => abi::MPI_ERR_FILE,
        Class::NotSame => abi::MPI_ERR_NOT_SAME,
        Class::Amode => abi::MPI_ERR_AMODE,
        Class::UnsupportedDatarep => abi::MPI_ERR_UNSUPPORTED_DATAREP,
        Class::UnsupportedOperation => abi::MPI_ERR_UNSUPPORTED_OPERATION,
        Class::NoSuchFile => abi::MPI_ERR_NO_SUCH_FILE,
        Class::FileExists => abi::MPI_ERR_FILE_EXISTS,
        Class::BadFile => abi::MPI_ERR_BAD_FILE,
        Class::Access => abi::MPI_ERR_ACCESS,
        Class::NoSpace => abi::MPI_ERR_NO_SPACE,
        Class::Quota => abi::MPI_ERR_QUOTA,
        Class::ReadOnly => abi::MPI_ERR_READ_ONLY,
        Class::FileInUse => abi::MPI_ERR_FILE_IN_USE,
        Class::DupDatarep => abi::MPI_ERR_DUP_DATAREP,
        Class::Conversion => abi::MPI_ERR_CONVERSION,
        Class::Io => abi::MPI_ERR_IO,
        Class::Session => abi::MPI_ERR_SESSION,
        Class::ProcAborted => abi::MPI_ERR_PROC_ABORTED,
        Class::ValueTooLarge => abi::MPI_ERR_VALUE_TOO_LARGE,
        Class::Errhandler => abi::MPI_ERR_ERRHANDLER,
        Class::ProcFailed => abi::MPIX_ERR_PROC_FAILED,
        Class::ProcFailedPending => abi::MPIX_ERR_PROC_FAILED_PENDING,
        Class::Revoked => abi::MPIX_ERR_REVOKED,
        Class::Stream => abi::MPIX_ERR_STREAM,
        Class::User(number) => number,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::MPI_INT;

    #[test]
    fn message_names_function_arguments_and_reason() {
        let error = Error::new(Class::Count, "count is -1; it must be 0 or more");
        let address = std::ptr::without_provenance::<c_void>(0x1000);
        let text = message(
            &error,
            "MPI_Send",
            On::Comm(MPI_COMM_SELF),
            &[
                ("buf", Arg::Buffer(address)),
                ("count", Arg::Int(-1)),
                ("datatype", Arg::Handle("MPI_Datatype", MPI_INT)),
                ("dest", Arg::Rank(MPI_PROC_NULL)),
                ("tag", Arg::Tag(3)),
                ("comm", Arg::Handle("MPI_Comm", 0x8400_0001_u32 as c_int)),
                ("name", Arg::Text(c"a \"b\"".as_ptr())),
            ],
            &Handler::Fatal,
        );
        let lines: Vec<&str> = text.lines().collect();
        assert!(
            lines[0].starts_with(
                "Weft: MPI_Send(buf=0x1000, count=-1, datatype=MPI_INT, dest=MPI_PROC_NULL, \
                 tag=3, comm=0x84000001, name=\"a \\\"b\\\"\") failed on "
            ),
            "{text}"
        );
        assert_eq!(
            lines[1..],
            [
                "      MPI_ERR_COUNT: count is -1; it must be 0 or more.",
                "      The job ends, because the error handler of MPI_COMM_SELF is \
                 MPI_ERRORS_ARE_FATAL.",
            ]
        );
    }

    #[test]
    fn a_returned_error_has_class_and_text() {
        let error = Error::new(Class::Amode, "no access mode");
        let code = raise(
            error,
            "MPI_File_open",
            On::File(MPI_FILE_NULL),
            &[("amode", Arg::Int(0))],
        );
        assert_eq!(codes::class_of(code), Some(abi::MPI_ERR_AMODE));
        assert_eq!(
            codes::text_of(code).as_deref(),
            Some("MPI_ERR_AMODE: no access mode; in MPI_File_open(amode=0)")
        );
        assert_eq!(class_code(Class::User(0x4000_0001)), 0x4000_0001);
        let long = Error::new(Class::Arg, "é".repeat(600));
        let text = summary(&long, "");
        assert!(text.len() < MPI_MAX_ERROR_STRING as usize && text.ends_with("é..."));
    }
}
