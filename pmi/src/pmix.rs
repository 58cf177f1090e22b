//! PMIx, the protocol of PRRTE (Open MPI's launcher) and `srun --mpi=pmix`. Its wire format is
//! private, so its own library does the communication.
//!
//! A fence collects all values, so each node's server has them, and the ranks of the node get them
//! from it or from the memory that it shares with them.
#![allow(unsafe_code, reason = "calls into libpmix")]

mod apps;
mod ffi;
mod psets;

use std::collections::HashMap;
use std::ffi::{CStr, CString, c_char, c_int};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

use ffi::{Data, Info, Library, Proc, Published, Value};

use crate::link::Link;
use crate::{Limits, PmiError, ProcessSet, Spawn};

/// The connection to a PMIx server; a process has at most one.
pub(crate) struct Pmix {
    library: Library,
    me: Proc,
    space: String,
    finalized: AtomicBool,
    how: String,
}

/// This process's identity, as the server sends it.
pub(crate) struct Identity {
    pub(crate) rank: u32,
    pub(crate) size: u32,
    pub(crate) spawned: bool,
}

/// An answer of the server.
enum Answer {
    Number(u64),
    Text(String),
    Other,
}

impl Pmix {
    /// Opens the library and connects to the server that the environment names.
    pub(crate) fn start(libraries: &[String]) -> Result<(Pmix, Identity), PmiError> {
        let library = Library::open(libraries)?;
        let mut me = Proc {
            space: [0; ffi::NAME_SIZE],
            rank: 0,
        };
        // SAFETY: the call fills in `me`; no array of further information is passed.
        let status = unsafe { (library.init)(&mut me, ptr::null_mut(), 0) };
        // SAFETY: the function returns a static C string.
        let version = unsafe { text((library.version)()) };
        let version = version
            .split(',')
            .next()
            .unwrap_or_default()
            .trim()
            .to_owned();
        if status != ffi::SUCCESS {
            return Err(PmiError::Environment(format!(
                "the PMIx server that started this process is unreachable: PMIx_Init of the library \
                 '{version}' failed with {}; if the launcher has a library of a different version, \
                 name that by WEFT_PMIX_LIBRARY=PATH",
                status_text(&library, status)
            )));
        }
        let link = Pmix {
            library,
            me,
            space: fixed_text(&me.space),
            finalized: AtomicBool::new(false),
            how: format!("by {version}"),
        };
        let size = match link.ask(ffi::RANK_WILDCARD, c"pmix.job.size", true)? {
            Some(Answer::Number(size)) => u32::try_from(size).unwrap_or(0),
            _ => 0,
        };
        if me.rank >= size {
            return Err(PmiError::Refused {
                command: "PMIx_Init",
                reason: format!("it sent rank {} of a job of {size} processes", me.rank),
            });
        }
        let parent = link.ask(me.rank, c"pmix.parent", true);
        let place = Identity {
            rank: me.rank,
            size,
            spawned: matches!(parent, Ok(Some(Answer::Other))),
        };
        Ok((link, place))
    }

    /// Returns the value of `key` of `rank`, if this node's server has it.
    fn ask(&self, rank: u32, key: &CStr, job_info: bool) -> Result<Option<Answer>, PmiError> {
        self.alive("PMIx_Get")?;
        let of = Proc { rank, ..self.me };
        // Do not wait for a missing value.
        let how = match job_info {
            true => c"pmix.optional",
            false => c"pmix.immediate",
        };
        let info = flag(how);
        let mut value: *mut Value = ptr::null_mut();
        // SAFETY: all arguments live through the call; `value` receives memory that this function
        // then owns.
        let status = unsafe { (self.library.get)(&of, key.as_ptr(), &info, 1, &mut value) };
        if status == ffi::ERR_NOT_FOUND || status == ffi::SUCCESS && value.is_null() {
            return Ok(None);
        }
        self.check("PMIx_Get", status)?;
        // SAFETY: on success the library has allocated the value for this function alone.
        Ok(Some(unsafe { take(value) }))
    }

    fn check(&self, command: &'static str, status: c_int) -> Result<(), PmiError> {
        match status {
            ffi::SUCCESS | ffi::OPERATION_SUCCEEDED => Ok(()),
            _ => Err(PmiError::Refused {
                command,
                reason: status_text(&self.library, status),
            }),
        }
    }

    fn alive(&self, command: &'static str) -> Result<(), PmiError> {
        match self.finalized.load(Ordering::Acquire) {
            false => Ok(()),
            true => Err(PmiError::Over(format!("{command} came after finalize"))),
        }
    }

    /// Returns the ranks of a node.
    fn peers(&self, node: &str) -> Option<Vec<u32>> {
        let node = CString::new(node).ok()?;
        let mut procs: *mut Proc = ptr::null_mut();
        let mut count = 0;
        // SAFETY: both names are C strings; this function owns the results.
        let status = unsafe {
            (self.library.resolve_peers)(
                node.as_ptr(),
                self.me.space.as_ptr(),
                &mut procs,
                &mut count,
            )
        };
        if status != ffi::SUCCESS || procs.is_null() {
            return None;
        }
        // SAFETY: on success `procs` points to `count` processes.
        let ranks = unsafe { std::slice::from_raw_parts(procs, count) };
        let ranks = ranks.iter().map(|one| one.rank).collect();
        // SAFETY: the library allocated it by malloc for the caller to free.
        unsafe { libc::free(procs.cast()) };
        Some(ranks)
    }
}

impl std::fmt::Debug for Pmix {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pmix")
            .field("space", &self.space)
            .field("rank", &self.me.rank)
            .finish_non_exhaustive()
    }
}

impl Link for Pmix {
    fn describe(&self) -> String {
        format!("PMIx {}", self.how)
    }

    fn space(&self) -> &str {
        &self.space
    }

    fn limits(&self) -> Limits {
        Limits {
            kvs_name: ffi::NAME_SIZE,
            key: ffi::KEY_SIZE,
            // PMIx has no limit; this one bounds mistakes.
            value: 1 << 20,
        }
    }

    fn put(&self, key: &str, value: &str) -> Result<(), PmiError> {
        self.alive("PMIx_Put")?;
        let key = c_string(key)?;
        let text = c_string(value)?;
        let mut value = string(&text);
        // SAFETY: the library copies key and value.
        let status = unsafe { (self.library.put)(ffi::GLOBAL, key.as_ptr(), &mut value) };
        self.check("PMIx_Put", status)
    }

    fn get(&self, from: u32, key: &str) -> Result<Option<String>, PmiError> {
        let key = c_string(key)?;
        match self.ask(from, &key, false)? {
            Some(Answer::Text(text)) => Ok(Some(text)),
            Some(_) => Err(PmiError::Refused {
                command: "PMIx_Get",
                reason: format!("the value of {key:?} is not text"),
            }),
            None => Ok(None),
        }
    }

    fn fence(&self) -> Result<(), PmiError> {
        self.alive("PMIx_Fence")?;
        // SAFETY: the function takes no arguments.
        self.check("PMIx_Commit", unsafe { (self.library.commit)() })?;
        let collect = flag(c"pmix.collect");
        // SAFETY: a null list of processes means all; `collect` lives through the call.
        let status = unsafe { (self.library.fence)(ptr::null(), 0, &collect, 1) };
        self.check("PMIx_Fence", status)
    }

    fn publish(&self, service: &str, port: &str) -> Result<(), PmiError> {
        self.alive("PMIx_Publish")?;
        let port = c_string(port)?;
        let info = info(&c_string(service)?, string(&port));
        // SAFETY: one entry that lives through the call.
        let status = unsafe { (self.library.publish)(&info, 1) };
        self.check("PMIx_Publish", status)
    }

    fn unpublish(&self, service: &str) -> Result<(), PmiError> {
        if self.lookup(service)?.is_none() {
            return Err(PmiError::Refused {
                command: "PMIx_Unpublish",
                reason: format!("'{service}' is not published"),
            });
        }
        let service = c_string(service)?;
        let mut keys = [service.as_ptr().cast_mut(), ptr::null_mut()];
        // SAFETY: `keys` is a null-terminated list of C strings, which the call only reads.
        let status = unsafe { (self.library.unpublish)(keys.as_mut_ptr(), ptr::null(), 0) };
        self.check("PMIx_Unpublish", status)
    }

    fn lookup(&self, service: &str) -> Result<Option<String>, PmiError> {
        self.alive("PMIx_Lookup")?;
        let mut data = Published {
            publisher: Proc {
                space: [0; ffi::NAME_SIZE],
                rank: 0,
            },
            key: fixed(&c_string(service)?),
            value: nothing(),
        };
        // SAFETY: one entry that lives through the call.
        let status = unsafe { (self.library.lookup)(&mut data, 1, ptr::null(), 0) };
        if status != ffi::SUCCESS || data.value.kind != ffi::STRING {
            // A missing service is an error whose number differs between servers.
            return Ok(None);
        }
        // SAFETY: a value of this kind holds a string, which this function owns.
        Ok(Some(unsafe { take_text(data.value.data.string) }))
    }

    fn spawn(&self, spawn: &Spawn) -> Result<(), PmiError> {
        self.alive("PMIx_Spawn")?;
        let mut apps = apps::Apps::new(spawn)?;
        let list = apps.list();
        let mut space = [0; ffi::NAME_SIZE];
        // SAFETY: the list and the memory that it points to live through the call, which only reads
        // them; `space` is as long as a name needs.
        let status = unsafe {
            (self.library.spawn)(
                ptr::null(),
                0,
                list.as_ptr(),
                list.len(),
                space.as_mut_ptr(),
            )
        };
        if status == ffi::ERR_NOT_SUPPORTED {
            return Err(PmiError::Refused {
                command: "PMIx_Spawn",
                reason: "its PMIx server cannot start processes; under Slurm use srun --mpi=pmi2"
                    .to_owned(),
            });
        }
        self.check("PMIx_Spawn", status)
    }

    fn preput(&self, key: &str) -> Result<Option<String>, PmiError> {
        // PMIx servers keep no values for jobs to come.
        Ok(std::env::var(apps::variable(key)).ok())
    }

    fn abort(&self, code: i32, message: &str) -> Result<(), PmiError> {
        let message = CString::new(message.replace('\0', " ")).unwrap_or_default();
        // SAFETY: the message is a C string; a null list of processes means all of the job.
        let status = unsafe { (self.library.abort)(code, message.as_ptr(), ptr::null_mut(), 0) };
        self.check("PMIx_Abort", status)
    }

    fn finalize(&self) -> Result<(), PmiError> {
        if self.finalized.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        // SAFETY: no further information is passed; `finalized` prevents later calls of the
        // library.
        let status = unsafe { (self.library.finalize)(ptr::null(), 0) };
        self.check("PMIx_Finalize", status)
    }

    fn appnum(&self) -> Result<Option<i32>, PmiError> {
        match self.ask(self.me.rank, c"pmix.appnum", true)? {
            Some(Answer::Number(number)) => Ok(i32::try_from(number).ok()),
            _ => Ok(None),
        }
    }

    fn universe_size(&self) -> Result<Option<u32>, PmiError> {
        match self.ask(ffi::RANK_WILDCARD, c"pmix.univ.size", true)? {
            Some(Answer::Number(number)) => Ok(u32::try_from(number).ok().filter(|&n| n > 0)),
            _ => Ok(None),
        }
    }

    fn psets(&self) -> Result<Vec<ProcessSet>, PmiError> {
        self.named_sets()
    }

    fn nodes(&self, size: u32) -> Result<Option<Vec<u32>>, PmiError> {
        self.alive("PMIx_Resolve_nodes")?;
        let mut list: *mut c_char = ptr::null_mut();
        // SAFETY: the name is a C string; this function owns the result.
        let status = unsafe { (self.library.resolve_nodes)(self.me.space.as_ptr(), &mut list) };
        if status != ffi::SUCCESS || list.is_null() {
            return Ok(None);
        }
        // SAFETY: on success the result is a C string allocated by malloc for the caller to free.
        let list = unsafe { take_text(list) };
        let mut by_node = HashMap::new();
        for (number, node) in (0u32..).zip(list.split(',').filter(|name| !name.is_empty())) {
            for rank in self.peers(node).unwrap_or_default() {
                by_node.insert(rank, number);
            }
        }
        Ok((0..size).map(|rank| by_node.get(&rank).copied()).collect())
    }
}

/// Returns the text of a name in an array.
fn fixed_text(chars: &[c_char]) -> String {
    let bytes = chars.iter().map(|&c| c as u8).take_while(|&b| b != 0);
    String::from_utf8_lossy(&bytes.collect::<Vec<_>>()).into_owned()
}

/// Returns a key in an array, cut to its length; [`crate::Client`] has checked that it fits.
fn fixed(key: &CStr) -> [c_char; ffi::KEY_SIZE] {
    let mut chars = [0; ffi::KEY_SIZE];
    let bytes = key.to_bytes();
    for (to, &from) in chars
        .iter_mut()
        .zip(&bytes[..bytes.len().min(ffi::KEY_SIZE - 1)])
    {
        *to = from as c_char;
    }
    chars
}

fn c_string(text: impl Into<Vec<u8>>) -> Result<CString, PmiError> {
    CString::new(text).map_err(|error| {
        let text = error.into_vec();
        PmiError::Unfit(format!(
            "'{}' contains a zero byte, which no string of C can have",
            text.escape_ascii()
        ))
    })
}

fn nothing() -> Value {
    Value {
        kind: 0,
        data: Data { all: [0; 3] },
    }
}

/// Makes a value that points to `text`.
fn string(text: &CStr) -> Value {
    let mut value = nothing();
    value.kind = ffi::STRING;
    value.data.string = text.as_ptr().cast_mut();
    value
}

fn info(key: &CStr, value: Value) -> Info {
    Info {
        key: fixed(key),
        flags: 0,
        value,
    }
}

fn flag(key: &CStr) -> Info {
    let mut value = nothing();
    value.kind = ffi::BOOL;
    value.data.flag = true;
    info(key, value)
}

/// Reads a value and frees it.
///
/// # Safety
/// `value` was allocated by the library, is valid, and belongs to the caller alone.
unsafe fn take(value: *mut Value) -> Answer {
    // SAFETY: the kind determines the valid member of the union; both the value and the memory that
    // it points to come from malloc and belong to the caller.
    unsafe {
        let data = &(*value).data;
        let answer = match (*value).kind {
            ffi::STRING => Answer::Text(take_text(data.string)),
            ffi::SIZE => Answer::Number(data.size as u64),
            ffi::UINT64 => Answer::Number(data.uint64),
            ffi::UINT32 | ffi::UINT | ffi::PROC_RANK => Answer::Number(data.uint32.into()),
            ffi::UINT16 => Answer::Number(data.uint16.into()),
            ffi::INT | ffi::INT32 if data.int >= 0 => Answer::Number(data.int as u64),
            ffi::PROC => {
                libc::free(data.pointer);
                Answer::Other
            }
            _ => Answer::Other,
        };
        libc::free(value.cast());
        answer
    }
}

/// Reads the text at `chars` and frees it.
///
/// # Safety
/// `chars` is null, or a C string from malloc that belongs to the caller alone.
unsafe fn take_text(chars: *mut c_char) -> String {
    // SAFETY: `chars` is null or a C string from malloc, by the caller's contract.
    unsafe {
        let text = text(chars);
        libc::free(chars.cast());
        text
    }
}

/// Reads the text at `chars`; empty if null.
///
/// # Safety
/// `chars` is null or a C string.
unsafe fn text(chars: *const c_char) -> String {
    if chars.is_null() {
        return String::new();
    }
    // SAFETY: not null, so a C string by the caller's contract.
    unsafe { CStr::from_ptr(chars) }
        .to_string_lossy()
        .into_owned()
}

fn status_text(library: &Library, status: c_int) -> String {
    // SAFETY: the function takes any number and returns a static C string.
    let name = unsafe { text((library.error_string)(status)) };
    format!("{name} ({status})")
}
