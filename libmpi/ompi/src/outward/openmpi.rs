//! Handles of Open MPI's ABI.
//!
//! A predefined handle is the address of an object in this library. A handle of an object that the
//! program made is the library's integer with a mark in the upper bits that no address has.

use std::cell::UnsafeCell;
use std::ffi::{c_int, c_void};
use std::sync::OnceLock;

use super::{OBJECTS, OutwardFile, ompi_mpi_file_null};
use crate::abi::{MPI_FILE_NULL, MPI_File};

/// A variable whose address is a handle. It has no content. An executable may have a copy of its
/// own (copy relocation), whose address then counts everywhere, and whose size the dynamic linker
/// compares with this one.
#[repr(C, align(32))]
#[derive(Debug)]
pub struct Object<const SIZE: usize>(UnsafeCell<[u8; SIZE]>);

// SAFETY: only the address is used; the content is never read or written.
unsafe impl<const SIZE: usize> Sync for Object<SIZE> {}

impl<const SIZE: usize> Object<SIZE> {
    pub(super) const fn new() -> Self {
        Object(UnsafeCell::new([0; SIZE]))
    }
}

/// The address of an [`Object`].
pub(super) struct Address(pub(super) *const c_void);

// SAFETY: the address is compared, never dereferenced.
unsafe impl Sync for Address {}

/// The mark above the integers of handles that were made at run time ("Weft").
///
/// On x86-64 the bits of an address from 47 up are equal, with five levels of page tables those
/// from 56 up, so the value is no address.
const MARK: usize = 0x5765_6674_0000_0000;

/// A handle as the program sees it.
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Outward(pub(super) usize);

impl Outward {
    /// Returns the handle of an object that the program made.
    #[inline(always)]
    pub(super) fn made(handle: u32) -> Outward {
        Outward(MARK | handle as usize)
    }

    /// Returns the library's handle; 0, which is no handle, for an invalid value.
    #[inline(always)]
    pub fn inward(self) -> c_int {
        if self.0 >> 32 == MARK >> 32 {
            return self.0 as u32 as c_int;
        }
        predefined().find(self.0) as c_int
    }
}

/// Number of slots of the hash table: a power of two, so large that most objects are in the slot
/// that is searched first.
const SLOTS: usize = 512;

/// The predefined objects by address, which is known only at run time.
struct Predefined {
    addresses: [usize; SLOTS],
    handles: [u32; SLOTS],
}

static PREDEFINED: OnceLock<Box<Predefined>> = OnceLock::new();

#[inline(always)]
fn predefined() -> &'static Predefined {
    match PREDEFINED.get() {
        Some(predefined) => predefined,
        None => first_use(),
    }
}

#[cold]
fn first_use() -> &'static Predefined {
    PREDEFINED.get_or_init(|| {
        let mut made = Box::new(Predefined {
            addresses: [0; SLOTS],
            handles: [0; SLOTS],
        });
        for (Address(address), handle) in &OBJECTS {
            let mut slot = Predefined::first_slot(address.addr());
            while made.addresses[slot] != 0 {
                slot = (slot + 1) % SLOTS;
            }
            made.addresses[slot] = address.addr();
            made.handles[slot] = *handle;
        }
        made
    })
}

impl Predefined {
    #[inline(always)]
    fn first_slot(address: usize) -> usize {
        let mixed = (address >> 5).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed >> (usize::BITS - SLOTS.trailing_zeros())
    }

    /// Returns the handle of the object at an address, or 0.
    #[inline(always)]
    fn find(&self, address: usize) -> u32 {
        let mut slot = Predefined::first_slot(address);
        // There are fewer objects than slots, so the search reaches an empty one.
        loop {
            let found = self.addresses[slot];
            if found == address || found == 0 {
                return self.handles[slot];
            }
            slot = (slot + 1) % SLOTS;
        }
    }
}

const _: () = assert!(OBJECTS.len() < SLOTS / 2);

/// `MPI_FILE_NULL`.
#[inline(always)]
fn no_file() -> usize {
    (&raw const ompi_mpi_file_null).addr()
}

impl OutwardFile {
    /// Returns the program's handle of a file.
    pub fn new(file: MPI_File) -> OutwardFile {
        if file == MPI_FILE_NULL {
            return OutwardFile((&raw const ompi_mpi_file_null).cast_mut().cast());
        }
        OutwardFile(file)
    }

    /// Returns the integer that represents a file. `number` assigns each file its own.
    pub fn to_int(file: MPI_File, number: impl Fn(MPI_File) -> c_int) -> c_int {
        number(file)
    }

    /// Returns the file that an integer represents.
    pub fn from_int(number: c_int, file: impl Fn(c_int) -> MPI_File) -> MPI_File {
        file(number)
    }

    /// Returns the library's handle.
    pub fn inward(self) -> MPI_File {
        if self.0.addr() == no_file() {
            return MPI_FILE_NULL;
        }
        self.0
    }
}
