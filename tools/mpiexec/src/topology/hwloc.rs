//! The topology from hwloc: this machine's, or that of `HWLOC_SYNTHETIC` or `HWLOC_XMLFILE`.
//!
//! The library (version 2) is loaded at run time. `struct hwloc_obj` is declared up to the last
//! field that is read; its layout is fixed within version 2.
#![allow(unsafe_code, reason = "the functions are a C library's")]

use std::collections::HashMap;
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::ptr;

use netmod_kit::library::{Advice, Library};

use super::{Machine, Thread, no_cache};

/// The default name of the library.
pub const NAME: &str = "libhwloc.so.15";

const ADVICE: Advice = Advice {
    missing: "install hwloc (Debian: libhwloc15), or name it with -topolib FILE; -topolib sys does without",
    unsuitable: "it is not version 2; install hwloc 2 (Debian: libhwloc15), or use -topolib sys",
};

/// `hwloc_obj_type_t`.
const PACKAGE: c_int = 1;
const CORE: c_int = 2;
const PU: c_int = 3;
const L2: c_int = 5;
const L3: c_int = 6;
const NODE: c_int = 13;

/// `struct hwloc_obj`.
#[repr(C)]
struct Object {
    kind: c_int,
    subtype: *mut c_char,
    os_index: c_uint,
    name: *mut c_char,
    total_memory: u64,
    attributes: *mut c_void,
    depth: c_int,
    logical_index: c_uint,
    next_cousin: *mut Object,
    prev_cousin: *mut Object,
    parent: *mut Object,
    sibling_rank: c_uint,
    next_sibling: *mut Object,
    prev_sibling: *mut Object,
    arity: c_uint,
    children: *mut *mut Object,
    first_child: *mut Object,
    last_child: *mut Object,
    symmetric_subtree: c_int,
    memory_arity: c_uint,
    memory_first_child: *mut Object,
    io_arity: c_uint,
    io_first_child: *mut Object,
    misc_arity: c_uint,
    misc_first_child: *mut Object,
    cpuset: *const c_void,
}

netmod_kit::symbols! {
    struct Functions, "hwloc_" {
        get_api_version: fn() -> c_uint;
        topology_init: fn(*mut *mut c_void) -> c_int;
        topology_load: fn(*mut c_void) -> c_int;
        topology_destroy: fn(*mut c_void);
        topology_is_thissystem: fn(*mut c_void) -> c_int;
        get_type_depth: fn(*mut c_void, c_int) -> c_int;
        get_nbobjs_by_depth: fn(*mut c_void, c_int) -> c_uint;
        get_obj_by_depth: fn(*mut c_void, c_int, c_uint) -> *const Object;
        bitmap_next: fn(*const c_void, c_int) -> c_int;
    }
}

/// Reads the topology by the library `name`. On this machine it is restricted to the CPUs in
/// `allowed`.
pub fn read(name: &str, allowed: &[usize]) -> Result<Machine, String> {
    let library = Library::open(name, ADVICE).map_err(|error| error.to_string())?;
    // SAFETY: `Functions` declares the types of hwloc.h for these names, with opaque structures as
    // void pointers.
    let calls = unsafe { Functions::load(&library) }.map_err(|error| error.to_string())?;
    // SAFETY: hwloc_get_api_version has no arguments and no preconditions.
    let version = unsafe { (calls.get_api_version)() };
    if version >> 16 != 2 {
        let (major, minor) = (version >> 16, version >> 8 & 0xff);
        return Err(format!(
            "{name} is hwloc {major}.{minor}: {}",
            ADVICE.unsuitable
        ));
    }
    let topology = Topology::load(&calls)?;
    let cpus = topology.objects(PU);
    let of = |kind: c_int| {
        let mut all: HashMap<usize, usize> = HashMap::new();
        for (number, set) in topology.objects(kind) {
            // A CPU may have several nodes (fast and slow memory): the first one counts.
            let name = if kind == NODE {
                Some(number)
            } else {
                set.first().copied()
            };
            for cpu in set {
                all.entry(cpu).or_insert(name.unwrap_or(cpu));
            }
        }
        all
    };
    let [sockets, nodes, third, second, cores] = [PACKAGE, NODE, L3, L2, CORE].map(of);
    // SAFETY: `Topology::load` has loaded the handle.
    let here = unsafe { (calls.topology_is_thissystem)(topology.handle) } != 0;
    let mut threads = Vec::new();
    for cpu in cpus.into_iter().flat_map(|(_, set)| set) {
        if here && !allowed.contains(&cpu) {
            continue;
        }
        let in_this =
            |all: &HashMap<usize, usize>, otherwise| all.get(&cpu).copied().unwrap_or(otherwise);
        let core = in_this(&cores, cpu);
        let socket = in_this(&sockets, 0);
        let numa = in_this(&nodes, 0);
        threads.push(Thread {
            cpu,
            core,
            l2: in_this(&second, core),
            l3: in_this(&third, no_cache(socket, numa)),
            numa,
            socket,
        });
    }
    match threads.is_empty() {
        true => Err(format!(
            "{name} lists no CPU that this process may use; use -topolib sys"
        )),
        false => Ok(Machine { threads, here }),
    }
}

/// A loaded topology.
struct Topology<'a> {
    calls: &'a Functions,
    handle: *mut c_void,
}

impl Topology<'_> {
    fn load(calls: &Functions) -> Result<Topology<'_>, String> {
        let mut handle = ptr::null_mut();
        // SAFETY: the pointer is to the local `handle`, which the call fills.
        if unsafe { (calls.topology_init)(&mut handle) } != 0 {
            return Err("hwloc_topology_init failed; use -topolib sys".to_owned());
        }
        let topology = Topology { calls, handle };
        // SAFETY: topology_init has just created `handle`.
        match unsafe { (calls.topology_load)(handle) } {
            0 => Ok(topology),
            _ => Err("hwloc_topology_load failed; check HWLOC_SYNTHETIC and HWLOC_XMLFILE, or use -topolib sys".to_owned()),
        }
    }

    /// Returns the kernel's number and the CPUs of all objects of a kind, in hwloc's order.
    fn objects(&self, kind: c_int) -> Vec<(usize, Vec<usize>)> {
        // SAFETY: `Topology::load` has loaded the handle; for a kind without objects hwloc returns
        // a negative depth, at which get_nbobjs_by_depth counts none.
        let (depth, count) = unsafe {
            let depth = (self.calls.get_type_depth)(self.handle, kind);
            (depth, (self.calls.get_nbobjs_by_depth)(self.handle, depth))
        };
        let one = |index| {
            // SAFETY: `index` is less than the number of objects at this depth; hwloc keeps an
            // object as long as the topology, and `Object` is a prefix of its layout in version 2.
            let object =
                unsafe { (self.calls.get_obj_by_depth)(self.handle, depth, index).as_ref() }?;
            let mut cpus = Vec::new();
            let mut last = -1;
            while !object.cpuset.is_null() {
                // SAFETY: `cpuset` is not null, and hwloc keeps it as long as the object.
                last = unsafe { (self.calls.bitmap_next)(object.cpuset, last) };
                match usize::try_from(last) {
                    Ok(cpu) => cpus.push(cpu),
                    Err(_) => break,
                }
            }
            Some((object.os_index as usize, cpus))
        };
        (0..count).filter_map(one).collect()
    }
}

impl Drop for Topology<'_> {
    fn drop(&mut self) {
        // SAFETY: topology_init created the handle, and nothing uses it after this drop.
        unsafe { (self.calls.topology_destroy)(self.handle) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_object_has_the_layout_of_version_2() {
        assert_eq!(std::mem::offset_of!(Object, os_index), 16);
        assert_eq!(std::mem::offset_of!(Object, arity), 104);
        assert_eq!(std::mem::offset_of!(Object, cpuset), 184);
    }

    #[test]
    fn no_library_is_no_machine() {
        let error = read("libhwloc-of-nobody.so", &[0]).unwrap_err();
        assert!(error.contains("libhwloc15"), "{error}");
        let error = read("libc.so.6", &[0]).unwrap_err();
        assert!(error.contains("hwloc_get_api_version"), "{error}");
    }
}
