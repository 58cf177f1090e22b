//! Queries of the installed library, which is loaded at run time.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::Path;
use std::ptr;

use libloading::Library;

/// `MPI_SUCCESS`.
const SUCCESS: c_int = 0;
/// `MPI_THREAD_SINGLE`.
const SINGLE: c_int = 0;
/// `MPI_CHAR` of the MPICH ABI.
const CHAR: c_int = 0x4c00_0101;
/// `MPI_INT` of the MPICH ABI.
const INT: c_int = 0x4c00_0405;
/// Bytes for a text; the interface truncates longer ones (MPI-5.0 section 15.3.3).
const ROOM: usize = 16_384;
/// `MPI_MAX_LIBRARY_VERSION_STRING` of the MPICH ABI.
const VERSION_ROOM: usize = 8192;

/// A control variable of the tool interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    /// Its name, also in the environment.
    pub name: String,
    /// What it does.
    pub help: String,
    /// Its value; `None` if it is not set and the library chooses.
    pub value: Option<String>,
}

/// The library's answers.
#[derive(Clone, Debug)]
pub struct Facts {
    /// The text of `MPI_Get_library_version`.
    pub version: String,
    /// The numbers of `MPI_Get_version`.
    pub standard: (c_int, c_int),
    /// All control variables.
    pub variables: Vec<Variable>,
}

type GetInfo = unsafe extern "C" fn(
    c_int,
    *mut c_char,
    *mut c_int,
    *mut c_int,
    *mut c_int,
    *mut *mut c_void,
    *mut c_char,
    *mut c_int,
    *mut c_int,
    *mut c_int,
) -> c_int;
type GetItem =
    unsafe extern "C" fn(*mut c_void, c_int, *mut c_int, *mut c_char, *mut c_int) -> c_int;
type HandleAlloc = unsafe extern "C" fn(c_int, *mut c_void, *mut *mut c_void, *mut c_int) -> c_int;

/// Loads the library and queries it.
///
/// # Errors
/// The library can't be loaded, lacks a function, or a call fails.
pub fn ask(path: &Path) -> Result<Facts, String> {
    // SAFETY: loading runs the constructors of an MPI library, which have no preconditions.
    let library = unsafe { Library::new(path) }.map_err(|e| format!("{}: {e}", path.display()))?;
    let tool = Tool { library: &library };
    let standard = tool.standard()?;
    let version = tool.version()?;
    let mut provided = 0;
    let init: unsafe extern "C" fn(c_int, *mut c_int) -> c_int = tool.find("MPI_T_init_thread")?;
    // SAFETY: the function may be called at any time (MPI-5.0 section 15.3.4).
    check("MPI_T_init_thread", unsafe {
        init(SINGLE, &raw mut provided)
    })?;
    let variables = tool.variables();
    let finalize: unsafe extern "C" fn() -> c_int = tool.find("MPI_T_finalize")?;
    // SAFETY: MPI_T_init_thread has succeeded above, once.
    check("MPI_T_finalize", unsafe { finalize() })?;
    Ok(Facts {
        version,
        standard,
        variables: variables?,
    })
}

fn check(function: &str, code: c_int) -> Result<(), String> {
    match code {
        SUCCESS => Ok(()),
        code => Err(format!("{function} failed with the code {code}")),
    }
}

/// Converts a C string that a function has written.
fn text(bytes: &[u8]) -> String {
    let text = CStr::from_bytes_until_nul(bytes).unwrap_or_default();
    text.to_string_lossy().into_owned()
}

struct Tool<'a> {
    library: &'a Library,
}

impl Tool<'_> {
    /// Looks up a function. `F` must be its type in the MPI standard.
    fn find<F: Copy>(&self, name: &str) -> Result<F, String> {
        // SAFETY: each caller names the function's type as the header of the MPICH ABI has it.
        let found = unsafe { self.library.get::<F>(name) };
        found
            .map(|symbol| *symbol)
            .map_err(|e| format!("{name}: {e}"))
    }

    fn standard(&self) -> Result<(c_int, c_int), String> {
        type Get = unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int;
        let get: Get = self.find("MPI_Get_version")?;
        let (mut major, mut minor) = (0, 0);
        // SAFETY: both pointers are to locals.
        let code = unsafe { get(&raw mut major, &raw mut minor) };
        check("MPI_Get_version", code)?;
        Ok((major, minor))
    }

    fn version(&self) -> Result<String, String> {
        type Get = unsafe extern "C" fn(*mut c_char, *mut c_int) -> c_int;
        let get: Get = self.find("MPI_Get_library_version")?;
        let (mut bytes, mut length) = (vec![0_u8; VERSION_ROOM], 0);
        // SAFETY: `bytes` has MPI_MAX_LIBRARY_VERSION_STRING bytes, the most that the function
        // writes.
        let code = unsafe { get(bytes.as_mut_ptr().cast(), &raw mut length) };
        check("MPI_Get_library_version", code)?;
        Ok(text(&bytes).trim_end().to_owned())
    }

    fn variables(&self) -> Result<Vec<Variable>, String> {
        let get: unsafe extern "C" fn(*mut c_int) -> c_int = self.find("MPI_T_cvar_get_num")?;
        let mut number = 0;
        // SAFETY: the pointer is to the local `number`.
        check("MPI_T_cvar_get_num", unsafe { get(&raw mut number) })?;
        (0..number).map(|index| self.variable(index)).collect()
    }

    fn variable(&self, index: c_int) -> Result<Variable, String> {
        let get: GetInfo = self.find("MPI_T_cvar_get_info")?;
        let (mut name, mut help) = (vec![0_u8; ROOM], vec![0_u8; ROOM]);
        let (mut name_room, mut help_room) = (ROOM as c_int, ROOM as c_int);
        let (mut verbosity, mut datatype, mut bind, mut scope) = (0, 0, 0, 0);
        let mut names = ptr::null_mut();
        // SAFETY: all pointers are to locals, and both texts have ROOM bytes, as their lengths say.
        let code = unsafe {
            get(
                index,
                name.as_mut_ptr().cast(),
                &raw mut name_room,
                &raw mut verbosity,
                &raw mut datatype,
                &raw mut names,
                help.as_mut_ptr().cast(),
                &raw mut help_room,
                &raw mut bind,
                &raw mut scope,
            )
        };
        check("MPI_T_cvar_get_info", code)?;
        let value = self.value(index, datatype)?;
        let value = match (value, names.is_null()) {
            (Value::Text(text), _) => Some(text).filter(|text| !text.is_empty()),
            (Value::Number(number), false) => Some(self.item(names, number)?),
            // The library reports -1 for a number that is not set.
            (Value::Number(number), true) => (number >= 0).then(|| number.to_string()),
        };
        Ok(Variable {
            name: text(&name),
            help: text(&help),
            value,
        })
    }

    fn value(&self, index: c_int, datatype: c_int) -> Result<Value, String> {
        let (mut handle, mut count) = (ptr::null_mut(), 0);
        let alloc: HandleAlloc = self.find("MPI_T_cvar_handle_alloc")?;
        // SAFETY: Weft's variables are bound to no object, so null is valid; the others are locals.
        let code = unsafe { alloc(index, ptr::null_mut(), &raw mut handle, &raw mut count) };
        check("MPI_T_cvar_handle_alloc", code)?;
        let read: unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int =
            self.find("MPI_T_cvar_read")?;
        let count = usize::try_from(count).unwrap_or_default();
        let value = match datatype {
            CHAR => {
                let mut bytes = vec![0_u8; count + 1];
                // SAFETY: `bytes` has room for the `count` characters that the variable has.
                let code = unsafe { read(handle, bytes.as_mut_ptr().cast()) };
                check("MPI_T_cvar_read", code).map(|()| Value::Text(text(&bytes)))
            }
            INT => {
                let mut numbers = vec![0 as c_int; count.max(1)];
                // SAFETY: `numbers` has room for the `count` integers that the variable has.
                let code = unsafe { read(handle, numbers.as_mut_ptr().cast()) };
                check("MPI_T_cvar_read", code).map(|()| Value::Number(numbers[0]))
            }
            other => Err(format!(
                "control variable {index} has the unknown type {other:#x}"
            )),
        };
        let free: unsafe extern "C" fn(*mut *mut c_void) -> c_int =
            self.find("MPI_T_cvar_handle_free")?;
        // SAFETY: MPI_T_cvar_handle_alloc returned the handle, and it is not used again.
        check("MPI_T_cvar_handle_free", unsafe { free(&raw mut handle) })?;
        value
    }

    /// Returns the name of a value of an enumeration.
    fn item(&self, names: *mut c_void, value: c_int) -> Result<String, String> {
        type Info = unsafe extern "C" fn(*mut c_void, *mut c_int, *mut c_char, *mut c_int) -> c_int;
        let info: Info = self.find("MPI_T_enum_get_info")?;
        let (mut items, mut room, mut unused) = (0, ROOM as c_int, vec![0_u8; ROOM]);
        // SAFETY: MPI_T_cvar_get_info returned the enumeration; `unused` has ROOM bytes, as `room`
        // says.
        let code = unsafe {
            info(
                names,
                &raw mut items,
                unused.as_mut_ptr().cast(),
                &raw mut room,
            )
        };
        check("MPI_T_enum_get_info", code)?;
        let get: GetItem = self.find("MPI_T_enum_get_item")?;
        for place in 0..items {
            let (mut found, mut room, mut name) = (0, ROOM as c_int, vec![0_u8; ROOM]);
            // SAFETY: MPI_T_cvar_get_info returned the enumeration; `name` has ROOM bytes, as
            // `room` says.
            let code = unsafe {
                get(
                    names,
                    place,
                    &raw mut found,
                    name.as_mut_ptr().cast(),
                    &raw mut room,
                )
            };
            check("MPI_T_enum_get_item", code)?;
            if found == value {
                return Ok(text(&name));
            }
        }
        Ok(value.to_string())
    }
}

enum Value {
    Number(c_int),
    Text(String),
}
