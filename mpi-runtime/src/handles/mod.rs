//! Handle tables: from handles, the integers of the C binding, to objects.
//!
//! A handle of the ABI has its kind in bits 31-30 (1 predefined, 2 made at run time), the type of
//! object in bits 29-26, and an index in the rest. A look-up takes no lock and detects handles that
//! are null, of another type, freed or made up.

pub mod attribute_value;
pub mod comms;
pub mod counts;
#[cfg(feature = "io")]
pub mod datareps;
pub mod destructors;
pub mod errhandler;
pub mod files;
pub mod freed_comms;
pub mod groups;
pub mod handler;
pub mod in_call;
pub mod infos;
pub mod memory;
pub mod messages;
pub mod predefined;
pub mod session_object;
pub mod sessions;
pub mod split_colors;
pub mod type_object;
pub mod types;
pub mod wins;

use std::ffi::c_int;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Arc, OnceLock};

use mpi_core::layout::{Layout, of_once, of_slice};
use mpi_core::local::Local;

use crate::handles::in_call::InCall;

const INDEX_BITS: u32 = 26;
const INDEX_MASK: u32 = (1 << INDEX_BITS) - 1;
const PREDEFINED: u32 = 1;
const MADE: u32 = 2;

/// The type bits of handles.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
#[allow(missing_docs, reason = "the names are those of MPI's object types")]
pub enum Type {
    Comm = 0x1,
    Group = 0x2,
    Datatype = 0x3,
    File = 0x4,
    Errhandler = 0x5,
    Op = 0x6,
    Info = 0x7,
    Win = 0x8,
    Keyval = 0x9,
    Request = 0xb,
    Message = 0xc,
    Session = 0xe,
    Stream = 0xf,
}

/// Returns the handle of an object made at run time.
#[inline(always)]
pub const fn made(object: Type, index: u32) -> c_int {
    (MADE << 30 | (object as u32) << INDEX_BITS | index) as c_int
}

/// Returns the index in a handle of type `object` made at run time.
#[inline(always)]
pub const fn made_index(handle: c_int, object: Type) -> Option<u32> {
    let handle = handle as u32;
    if handle >> INDEX_BITS == MADE << 4 | object as u32 {
        Some(handle & INDEX_MASK)
    } else {
        None
    }
}

/// Returns the index in a predefined handle of type `object`.
#[inline(always)]
pub const fn predefined_index(handle: c_int, object: Type) -> Option<u32> {
    let handle = handle as u32;
    let wanted = PREDEFINED << 4 | object as u32;
    if handle >> INDEX_BITS == wanted {
        Some(handle & INDEX_MASK)
    } else {
        None
    }
}

/// Slots of the first segment, the only one that fast paths search; most programs have fewer
/// objects of a type.
const FIRST: u32 = 512;
const SEGMENTS: usize = 18;

/// The objects of one type made at run time, by index.
///
/// Grows in segments that never move, so that a look-up is two loads.
pub struct HandleTable<T> {
    object: Type,
    /// The handle with index 0.
    base: c_int,
    /// The slots of the first segment, or `EMPTY` until it exists.
    early: AtomicPtr<AtomicPtr<T>>,
    segments: [OnceLock<Box<[AtomicPtr<T>]>>; SEGMENTS],
    vacant: Local<Vacant>,
}

/// A stand-in for a missing first segment. Never written.
static EMPTY: [AtomicPtr<()>; FIRST as usize] =
    [const { AtomicPtr::new(ptr::null_mut()) }; FIRST as usize];

struct Vacant {
    next: u32,
    freed: Vec<u32>,
}

impl<T> HandleTable<T> {
    /// Creates an empty table for objects of type `object`.
    pub const fn new(object: Type) -> Self {
        let vacant = Vacant {
            next: 0,
            freed: Vec::new(),
        };
        HandleTable {
            object,
            base: made(object, 0),
            early: AtomicPtr::new((&raw const EMPTY).cast::<AtomicPtr<T>>().cast_mut()),
            segments: [const { OnceLock::new() }; SEGMENTS],
            vacant: match object {
                // Threads may make and free these at any thread level (MPI-4.1 section 11.4.1).
                Type::Info | Type::Errhandler | Type::Session => Local::overlapping(vacant),
                _ => Local::new(vacant),
            },
        }
    }

    #[inline(always)]
    fn slot(&self, index: u32) -> Option<&AtomicPtr<T>> {
        let position = index + FIRST;
        let segment = 31 - position.leading_zeros() - FIRST.trailing_zeros();
        self.segments
            .get(segment as usize)?
            .get()?
            .get((position - (FIRST << segment)) as usize)
    }

    /// Returns the object behind a handle, if there is one, for the duration of a call.
    #[inline(always)]
    pub fn get<'c>(&'c self, handle: c_int, _call: InCall<'c>) -> Option<&'c T> {
        let object = self
            .slot(made_index(handle, self.object)?)?
            .load(Ordering::Acquire);
        // SAFETY: a pointer in a slot is null or comes from `Arc::into_raw` in `insert`, and stays
        // valid until `remove`, which nobody calls while the call uses the object (`InCall::begin`).
        unsafe { object.as_ref() }
    }

    /// Returns the object behind a handle in the first segment, in fewer instructions than
    /// [`HandleTable::get`].
    #[inline(always)]
    pub fn get_early<'c>(&'c self, handle: c_int, _call: InCall<'c>) -> Option<&'c T> {
        let index = (handle as u32).wrapping_sub(self.base as u32);
        if index >= FIRST {
            return None;
        }
        // SAFETY: `index` is below FIRST, and `early` points to FIRST slots: those of the first
        // segment, which is never freed, or of `EMPTY`, whose slots are null pointers of the same
        // size. A pointer in a slot comes from `Arc::into_raw` and stays valid until `remove`,
        // which nobody calls while the call uses the object (`InCall::begin`).
        unsafe {
            let slot = self.early.load(Ordering::Acquire).add(index as usize);
            (*slot).load(Ordering::Acquire).as_ref()
        }
    }

    /// Returns the address of the object that [`HandleTable::get_early`] finds, even if other
    /// threads free it.
    ///
    /// While the handle is in use by the calling thread, no other object has the address.
    #[inline(always)]
    pub fn address_early(&self, handle: c_int) -> Option<usize> {
        let index = (handle as u32).wrapping_sub(self.base as u32);
        if index >= FIRST {
            return None;
        }
        // SAFETY: `index` is below FIRST, and `early` points to FIRST slots, of the first segment,
        // which is never freed, or of `EMPTY`. The object's pointer is not dereferenced.
        let object = unsafe {
            let slot = self.early.load(Ordering::Acquire).add(index as usize);
            (*slot).load(Ordering::Acquire)
        };
        (!object.is_null()).then_some(object.addr())
    }

    /// Returns a reference to keep the object behind a handle.
    pub fn get_arc(&self, handle: c_int) -> Option<Arc<T>> {
        let object = self
            .slot(made_index(handle, self.object)?)?
            .load(Ordering::Acquire);
        if object.is_null() {
            return None;
        }
        // SAFETY: the pointer comes from `Arc::into_raw` in `insert`, and the table owns its count
        // until `remove`, which the program may not call while another call uses the handle. The
        // count is raised for the new `Arc`.
        unsafe {
            Arc::increment_strong_count(object);
            Some(Arc::from_raw(object))
        }
    }

    /// Returns a reference to keep the object behind a handle, which other threads may free
    /// meanwhile.
    pub fn get_kept(&self, handle: c_int) -> Option<Arc<T>> {
        let slot = self.slot(made_index(handle, self.object)?)?;
        let _vacant = self.vacant.lock();
        self.keep(slot)
    }

    /// Returns the first object that satisfies `is_it`, which must not use the table. Other threads
    /// may free objects meanwhile.
    pub fn find_arc(&self, is_it: impl Fn(&T) -> bool) -> Option<Arc<T>> {
        let vacant = self.vacant.lock();
        let slots = (0..vacant.next).filter_map(|index| self.slot(index));
        slots
            .filter_map(|slot| self.keep(slot))
            .find(|object| is_it(object))
    }

    /// Returns a reference to the object in a slot. The caller holds the lock of `vacant`.
    fn keep(&self, slot: &AtomicPtr<T>) -> Option<Arc<T>> {
        let object = slot.load(Ordering::Acquire);
        if object.is_null() {
            return None;
        }
        // SAFETY: the pointer is of an `Arc` that the table owns until `take_out`, whose callers
        // hold the lock of `vacant`, as this function's caller does now. The count is raised for
        // the new `Arc`.
        unsafe {
            Arc::increment_strong_count(object);
            Some(Arc::from_raw(object))
        }
    }

    /// Inserts an object and returns its handle; `None` if all 2^26 are in use.
    pub fn insert(&self, object: Arc<T>) -> Option<c_int> {
        let index = {
            let mut vacant = self.vacant.lock();
            match vacant.freed.pop() {
                Some(index) => index,
                None if vacant.next <= INDEX_MASK => {
                    vacant.next += 1;
                    vacant.next - 1
                }
                None => return None,
            }
        };
        let slot = match self.slot(index) {
            Some(slot) => slot,
            None => self.grow(index)?,
        };
        slot.store(Arc::into_raw(object).cast_mut(), Ordering::Release);
        Some(made(self.object, index))
    }

    /// Allocates the segment of `index`, and returns its slot.
    #[cold]
    fn grow(&self, index: u32) -> Option<&AtomicPtr<T>> {
        let segment = 31 - (index + FIRST).leading_zeros() - FIRST.trailing_zeros();
        let slots = self.segments[segment as usize].get_or_init(|| {
            (0..FIRST << segment)
                .map(|_| AtomicPtr::new(ptr::null_mut()))
                .collect()
        });
        if segment == 0 {
            let slots = slots.as_ptr().cast_mut();
            self.early.store(slots, Ordering::Release);
        }
        self.slot(index)
    }

    /// Replaces an object that is not in use by another.
    pub fn replace(&self, handle: c_int, object: Arc<T>) {
        let index = made_index(handle, self.object);
        let Some(slot) = index.and_then(|index| self.slot(index)) else {
            return;
        };
        let vacant = self.vacant.lock();
        let old = slot.swap(Arc::into_raw(object).cast_mut(), Ordering::AcqRel);
        drop(vacant);
        if !old.is_null() {
            // SAFETY: the pointer came from `Arc::into_raw`, and the swap made this its only owner.
            drop(unsafe { Arc::from_raw(old) });
        }
    }

    /// Removes an object; its handle is invalid from then on.
    pub fn remove(&self, handle: c_int) -> Option<Arc<T>> {
        self.remove_if(handle, |_| true)
    }

    /// Removes an object if it satisfies `is_it`, which must not use the table.
    #[inline]
    pub fn remove_if(&self, handle: c_int, is_it: impl Fn(&T) -> bool) -> Option<Arc<T>> {
        let index = made_index(handle, self.object)?;
        let slot = self.slot(index)?;
        let mut vacant = self.vacant.lock();
        let object = take_out(slot, is_it)?;
        vacant.freed.push(index);
        Some(object)
    }

    /// Removes an object, and reserves its handle until [`HandleTable::give_back`].
    pub fn take(&self, handle: c_int) -> Option<Arc<T>> {
        let slot = self.slot(made_index(handle, self.object)?)?;
        // `find` relies on the lock while it reads objects that other threads may free.
        let _vacant = self.vacant.lock();
        take_out(slot, |_| true)
    }

    /// Releases the handle of an object removed by [`HandleTable::take`]; to be called once.
    pub fn give_back(&self, handle: c_int) {
        if let Some(index) = made_index(handle, self.object) {
            self.vacant.lock().freed.push(index);
        }
    }

    /// Lists the addresses by which a debugger finds the objects.
    pub fn layout(&self, layout: &mut Layout) {
        layout.add("comms", ptr::from_ref(&self.segments) as usize);
        let vacant = self.vacant.as_ptr() as usize;
        layout.add("comms.next", vacant + std::mem::offset_of!(Vacant, next));
        layout.add("comms.first", FIRST as usize);
        layout.add("comms.step", size_of::<OnceLock<Box<[AtomicPtr<T>]>>>());
        layout.add("comms.pointer", of_once::<AtomicPtr<T>>() + of_slice().0);
    }

    /// Returns whether the object behind a handle satisfies `is_it`, which must not use the table.
    /// Other threads may free it meanwhile.
    pub fn is(&self, handle: c_int, is_it: impl Fn(&T) -> bool) -> bool {
        let index = made_index(handle, self.object);
        let Some(slot) = index.and_then(|index| self.slot(index)) else {
            return false;
        };
        let _vacant = self.vacant.lock();
        // SAFETY: the pointer is null or of an `Arc` that the table owns until `take_out`, whose
        // callers hold the lock of `vacant`, as this function does.
        unsafe { slot.load(Ordering::Acquire).as_ref() }.is_some_and(is_it)
    }

    /// Returns the first handle whose object satisfies `is_it`, which must not use the table. Other
    /// threads may free objects meanwhile.
    pub fn find(&self, is_it: impl Fn(&T) -> bool) -> Option<c_int> {
        let vacant = self.vacant.lock();
        let found = (0..vacant.next).find(|index| {
            let object = self
                .slot(*index)
                .map_or(ptr::null_mut(), |slot| slot.load(Ordering::Acquire));
            // SAFETY: the pointer is null or of an `Arc` that the table owns until `take_out`,
            // whose callers hold the lock of `vacant`, as this function does.
            unsafe { object.as_ref() }.is_some_and(&is_it)
        });
        found.map(|index| made(self.object, index))
    }

    /// Returns the handles of all objects in the table.
    pub fn handles(&self) -> Vec<c_int> {
        let next = self.vacant.lock().next;
        let live = |index: &u32| {
            self.slot(*index)
                .is_some_and(|slot| !slot.load(Ordering::Acquire).is_null())
        };
        (0..next)
            .filter(live)
            .map(|index| made(self.object, index))
            .collect()
    }
}

/// Takes the object out of a slot if it satisfies `is_it`. The caller holds the lock of `vacant`.
#[inline]
fn take_out<T>(slot: &AtomicPtr<T>, is_it: impl Fn(&T) -> bool) -> Option<Arc<T>> {
    let object = slot.load(Ordering::Acquire);
    // SAFETY: the pointer is null or of an `Arc` that the table owns until it is taken out with the
    // lock of `vacant`, which the caller holds.
    let found = unsafe { object.as_ref() };
    if !found.is_some_and(is_it) {
        return None;
    }
    slot.store(ptr::null_mut(), Ordering::Release);
    // SAFETY: the pointer is not null and came from `Arc::into_raw`; the store made this its only
    // owner, since objects are taken out with the lock of `vacant` only, which the caller holds.
    Some(unsafe { Arc::from_raw(object) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_find_their_objects_until_freed() {
        // SAFETY: no reference is used after its object was removed.
        let call = unsafe { InCall::begin() };
        let table = HandleTable::<String>::new(Type::Info);
        let handles: Vec<_> = (0..1000)
            .map(|i| table.insert(Arc::new(i.to_string())).unwrap())
            .collect();
        for (i, &handle) in handles.iter().enumerate() {
            assert_eq!(table.get(handle, call), Some(&i.to_string()));
            assert_eq!(table.get_arc(handle).as_deref(), Some(&i.to_string()));
            let early = table.get_early(handle, call);
            assert_eq!(early, (i < FIRST as usize).then_some(&i.to_string()));
        }
        assert_eq!(table.handles(), handles);
        assert_eq!(
            table.remove(handles[500]).as_deref(),
            Some(&"500".to_string())
        );
        assert!(table.get(handles[500], call).is_none());
        assert!(table.remove(handles[500]).is_none());
        assert_eq!(table.insert(Arc::new("again".into())), Some(handles[500]));
        // A reserved handle is reused only after `give_back`.
        assert!(table.take(handles[7]).is_some() && table.take(handles[7]).is_none());
        let next = table.insert(Arc::new("next".into()));
        assert_ne!(next, Some(handles[7]));
        table.give_back(handles[7]);
        assert_eq!(table.insert(Arc::new("last".into())), Some(handles[7]));
    }

    /// Objects are found while other threads make and free objects that the search passes.
    #[test]
    fn objects_are_found_while_others_are_freed() {
        let table = HandleTable::<Box<u32>>::new(Type::Datatype);
        let passing: Vec<_> = (0..50)
            .map(|_| table.insert(Arc::new(Box::new(1))).unwrap())
            .collect();
        let wanted = table.insert(Arc::new(Box::new(2))).unwrap();
        let over = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            let churn = || {
                let mut mine = passing.clone();
                while !over.load(Ordering::Relaxed) {
                    for handle in &mut mine {
                        drop(table.remove(*handle));
                        *handle = table.insert(Arc::new(Box::new(1))).unwrap();
                    }
                }
            };
            scope.spawn(churn);
            for _ in 0..20_000 {
                assert_eq!(table.find(|number| **number == 2), Some(wanted));
                assert_eq!(table.find(|number| **number > 2), None);
                assert!(!table.is(passing[7], |number| **number == 2));
            }
            over.store(true, Ordering::Relaxed);
        });
    }

    #[test]
    fn made_up_handles_are_detected() {
        // SAFETY: no object is removed.
        let call = unsafe { InCall::begin() };
        let table = HandleTable::<u8>::new(Type::Comm);
        assert!(table.get_early(made(Type::Comm, 0), call).is_none());
        let comm = table.insert(Arc::new(1)).unwrap();
        assert_eq!(comm as u32, 0x8400_0000);
        for wrong in [
            0,
            -1,
            1,
            comm + 1,
            made(Type::Group, 0),
            made(Type::Comm, INDEX_MASK),
        ] {
            assert!(table.get(wrong, call).is_none(), "{wrong:#x}");
            assert!(table.get_early(wrong, call).is_none(), "{wrong:#x}");
        }
    }
}
