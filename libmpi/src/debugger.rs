//! The symbols that debuggers look for: a table of offsets and addresses ([`mpi_core::layout`]),
//! and the library that interprets it, `libweft_mqs.so` (the interface for dumping message queues,
//! MQD 1.0).
//!
//! The table is filled once, when MPI is initialized, and not used while the program runs.

#![allow(non_upper_case_globals, reason = "names that debuggers look for")]

use std::ffi::{CStr, c_char, c_void};
use std::path::{Path, PathBuf};
use std::ptr::{self, null_mut};
use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicU32, Ordering};

use mpi_core::layout::Layout;
use mpi_runtime::handles::comms::CommObject;
use mpi_runtime::lifecycle::runtime::Runtime;

/// A name, NUL-padded, and its number.
#[repr(C)]
pub struct Entry {
    name: [u8; 32],
    value: u64,
}

/// The table that debuggers look for.
#[repr(C)]
pub struct Table {
    /// `WEFTMQS1`, to identify the table; the last character is the version.
    magic: [u8; 8],
    /// Number of entries; 0 while MPI is not initialized.
    count: AtomicU32,
    /// Bytes of an entry.
    step: u32,
    entries: AtomicPtr<Entry>,
}

/// The table of this process.
#[used]
#[unsafe(no_mangle)]
pub static weft_places: Table = Table {
    magic: *b"WEFTMQS1",
    count: AtomicU32::new(0),
    step: size_of::<Entry>() as u32,
    entries: AtomicPtr::new(null_mut()),
};

const PATH: usize = 4096;

/// The library that debuggers load: its name, and when MPI is initialized its path.
#[used]
#[unsafe(no_mangle)]
pub static MPIR_dll_name: [AtomicU8; PATH] = {
    let mut text = [const { AtomicU8::new(0) }; PATH];
    let mut at = 0;
    while at < NAME.len() {
        text[at] = AtomicU8::new(NAME.as_bytes()[at]);
        at += 1;
    }
    text
};

const NAME: &str = "libweft_mqs.so";

/// Publishes the table for debuggers, when MPI is initialized.
pub(crate) fn tell(runtime: &Runtime) {
    let mut layout = Layout::default();
    runtime.process.layout(&mut layout);
    mpi_core::comm::debugger::add(&mut layout);
    layout.add("comm.world", place_of(&runtime.world));
    layout.add("comm.self", place_of(&runtime.self_comm));
    layout.add("world.size", runtime.world.comm.size() as usize);
    runtime.comms.layout(&mut layout);
    let comm = std::mem::offset_of!(CommObject, comm);
    layout.add("object.comm", comm);
    let entry = |&(text, value): &(&str, u64)| {
        let mut name = [0; 32];
        let len = text.len().min(name.len());
        name[..len].copy_from_slice(&text.as_bytes()[..len]);
        Entry { name, value }
    };
    let entries: Box<[Entry]> = layout.all().iter().map(entry).collect();
    let count = entries.len() as u32;
    // Leaked until `forget`, since a debugger may read it at any time.
    let entries = Box::leak(entries).as_mut_ptr();
    weft_places.entries.store(entries, Ordering::Release);
    weft_places.count.store(count, Ordering::Release);
    if let Some(path) = library() {
        write_name(&path);
    }
}

/// Empties the table.
pub(crate) fn forget() {
    let count = weft_places.count.swap(0, Ordering::AcqRel);
    let entries = weft_places.entries.swap(ptr::null_mut(), Ordering::AcqRel);
    if !entries.is_null() {
        let entries = ptr::slice_from_raw_parts_mut(entries, count as usize);
        // SAFETY: the entries were leaked by `tell` with this length, and are taken once. A
        // debugger reads the count first, while the process is stopped.
        drop(unsafe { Box::from_raw(entries) });
    }
}

fn place_of(object: &CommObject) -> usize {
    ptr::from_ref(&object.comm) as usize
}

/// Returns the path of [`NAME`], beside this library or beside that of another ABI.
fn library() -> Option<PathBuf> {
    // SAFETY: `Dl_info` consists of pointers, for which zeroes are valid.
    let mut found: libc::Dl_info = unsafe { std::mem::zeroed() };
    let here: *const c_void = ptr::from_ref(&weft_places).cast();
    // SAFETY: `dladdr` accepts any address, and `found` is a local variable.
    let known = unsafe { libc::dladdr(here, &raw mut found) } != 0;
    if !known || found.dli_fname.is_null() {
        return None;
    }
    let path: *const c_char = found.dli_fname;
    // SAFETY: the loader's path of a loaded library is a string that ends with NUL.
    let path = unsafe { CStr::from_ptr(path) }.to_string_lossy();
    let folder = std::fs::canonicalize(&*path).ok()?.parent()?.to_owned();
    let other = folder.parent().and_then(Path::parent);
    let folders = [Some(folder.as_path()), other];
    let mut paths = folders.into_iter().flatten().map(|dir| dir.join(NAME));
    paths.find(|path| path.exists())
}

fn write_name(path: &Path) {
    let text = path.as_os_str().as_encoded_bytes();
    if text.len() < PATH {
        for (place, byte) in MPIR_dll_name.iter().zip(text.iter().chain([&0])) {
            place.store(*byte, Ordering::Relaxed);
        }
    }
}
