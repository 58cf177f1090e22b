//! From the integers that the C binding calls handles to the objects behind them, and back.
//!
//! A handle of the ABI has its kind in bits 31-30 (1 predefined, 2 made at run time), the type of
//! object in bits 29-26, and an index in the rest. Looking one up takes no lock and finds out
//! handles that are null, of another type, freed or made up.

pub mod attribute_value;
pub mod comms;
pub mod counts;
pub mod datareps;
pub mod destructors;
pub mod errhandler;
pub mod files;
pub mod freed_comms;
pub mod groups;
pub mod handler;
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

use mpi_core::local::Local;
use mpi_core::places::{Places, of_once, of_slice};

const INDEX_BITS: u32 = 26;
const INDEX_MASK: u32 = (1 << INDEX_BITS) - 1;
const PREDEFINED: u32 = 1;
const MADE: u32 = 2;

/// The type bits of handles.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
#[allow(missing_docs, reason = "the names say it")]
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

/// The handle of an object made at run time.
#[inline(always)]
pub const fn made(object: Type, index: u32) -> c_int {
    (MADE << 30 | (object as u32) << INDEX_BITS | index) as c_int
}

/// The index in a handle of `object` made at run time.
#[inline(always)]
pub const fn made_index(handle: c_int, object: Type) -> Option<u32> {
    let handle = handle as u32;
    if handle >> INDEX_BITS == MADE << 4 | object as u32 {
        Some(handle & INDEX_MASK)
    } else {
        None
    }
}

/// The index in a predefined handle of `object`.
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

/// Objects of the first segment, which the shortest ways look in alone: more than programs have of most types.
const FIRST: u32 = 512;
const SEGMENTS: usize = 18;

/// The objects of one type that were made at run time, by index.
///
/// Grows in segments that never move, so that a look-up is two loads.
pub struct HandleTable<T> {
    object: Type,
    /// The handle of the first object.
    base: c_int,
    /// The slots of the first segment, or as many empty ones as long as there is none.
    early: AtomicPtr<AtomicPtr<T>>,
    segments: [OnceLock<Box<[AtomicPtr<T>]>>; SEGMENTS],
    vacant: Local<Vacant>,
}

/// In place of a first segment. Nobody writes to them.
static EMPTY: [AtomicPtr<()>; FIRST as usize] =
    [const { AtomicPtr::new(ptr::null_mut()) }; FIRST as usize];

struct Vacant {
    next: u32,
    freed: Vec<u32>,
}

impl<T> HandleTable<T> {
    /// An empty table for objects of type `object`.
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
                // Threads may make and free these whatever the program has asked for (MPI-4.1 section 11.4.1).
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

    /// The object behind a handle, if there is one.
    ///
    /// The reference must not be used beyond the call that the program made: freeing a handle while
    /// another thread uses it is an error of the program (MPI-3.1 section 12.4.2).
    #[inline(always)]
    pub fn get(&self, handle: c_int) -> Option<&T> {
        let object = self
            .slot(made_index(handle, self.object)?)?
            .load(Ordering::Acquire);
        // SAFETY: non-null pointers come from `Arc::into_raw` in `insert` and stay valid until
        // `remove`, which the program may not call meanwhile.
        unsafe { object.as_ref() }
    }

    /// As [`HandleTable::get`] for the first few objects, in the fewest instructions.
    #[inline(always)]
    pub fn get_early(&self, handle: c_int) -> Option<&T> {
        let index = (handle as u32).wrapping_sub(self.base as u32);
        if index >= FIRST {
            return None;
        }
        // SAFETY: `early` points to so many slots, of the first segment, which stays, or of `EMPTY`, whose slots are
        // null pointers of the same size. The object: as for `get`.
        unsafe {
            let slot = self.early.load(Ordering::Acquire).add(index as usize);
            (*slot).load(Ordering::Acquire).as_ref()
        }
    }

    /// Where the object is that [`HandleTable::get_early`] finds, whatever other threads do: no other one is there while
    /// the handle is that of this one.
    #[inline(always)]
    pub fn address_early(&self, handle: c_int) -> Option<usize> {
        let index = (handle as u32).wrapping_sub(self.base as u32);
        if index >= FIRST {
            return None;
        }
        // SAFETY: as in `get_early`; what the pointer points to is not looked at.
        let object = unsafe {
            let slot = self.early.load(Ordering::Acquire).add(index as usize);
            (*slot).load(Ordering::Acquire)
        };
        (!object.is_null()).then_some(object.addr())
    }

    /// As [`HandleTable::get`], to be kept.
    pub fn get_arc(&self, handle: c_int) -> Option<Arc<T>> {
        let object = self
            .slot(made_index(handle, self.object)?)?
            .load(Ordering::Acquire);
        if object.is_null() {
            return None;
        }
        // SAFETY: as in `get`, the pointer is that of a living `Arc`, whose count is raised for the
        // new one.
        unsafe {
            Arc::increment_strong_count(object);
            Some(Arc::from_raw(object))
        }
    }

    /// As [`HandleTable::get_arc`], where other threads may free the object meanwhile.
    pub fn get_kept(&self, handle: c_int) -> Option<Arc<T>> {
        let slot = self.slot(made_index(handle, self.object)?)?;
        let _vacant = self.vacant.lock();
        self.keep(slot)
    }

    /// The first object that `is_it`, which must not use the table. Other threads may free what they like meanwhile.
    pub fn find_arc(&self, is_it: impl Fn(&T) -> bool) -> Option<Arc<T>> {
        let vacant = self.vacant.lock();
        let slots = (0..vacant.next).filter_map(|index| self.slot(index));
        slots
            .filter_map(|slot| self.keep(slot))
            .find(|object| is_it(object))
    }

    /// The object in a place. The caller has the lock that `take_if` takes objects out with.
    fn keep(&self, slot: &AtomicPtr<T>) -> Option<Arc<T>> {
        let object = slot.load(Ordering::Acquire);
        if object.is_null() {
            return None;
        }
        // SAFETY: the pointer is of an `Arc` that the table has until `take_if` gets the lock, whose count is raised
        // for the new one.
        unsafe {
            Arc::increment_strong_count(object);
            Some(Arc::from_raw(object))
        }
    }

    /// Puts an object in and gives its handle; `None` when all 2^26 are in use.
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

    /// The slot of an index that no slot has been made for yet.
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

    /// Puts another object in the place of one that nobody uses.
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

    /// Takes an object out; its handle is invalid from then on.
    pub fn remove(&self, handle: c_int) -> Option<Arc<T>> {
        self.remove_if(handle, |_| true)
    }

    /// As [`HandleTable::remove`], of an object that `is_it`, which must not use the table.
    #[inline]
    pub fn remove_if(&self, handle: c_int, is_it: impl Fn(&T) -> bool) -> Option<Arc<T>> {
        let index = made_index(handle, self.object)?;
        let slot = self.slot(index)?;
        let mut vacant = self.vacant.lock();
        let object = take_out(slot, is_it)?;
        vacant.freed.push(index);
        Some(object)
    }

    /// Takes an object out, and keeps its handle from others until [`HandleTable::give_back`].
    pub fn take(&self, handle: c_int) -> Option<Arc<T>> {
        let slot = self.slot(made_index(handle, self.object)?)?;
        // For `find`, which looks at what other threads may free.
        let _vacant = self.vacant.lock();
        take_out(slot, |_| true)
    }

    /// Another object may have the handle of one that was taken out; once only.
    pub fn give_back(&self, handle: c_int) {
        if let Some(index) = made_index(handle, self.object) {
            self.vacant.lock().freed.push(index);
        }
    }

    /// Where a debugger finds the objects.
    pub fn places(&self, places: &mut Places) {
        places.add("comms", ptr::from_ref(&self.segments) as usize);
        let vacant = self.vacant.as_ptr() as usize;
        places.add("comms.next", vacant + std::mem::offset_of!(Vacant, next));
        places.add("comms.first", FIRST as usize);
        places.add("comms.step", size_of::<OnceLock<Box<[AtomicPtr<T>]>>>());
        places.add("comms.pointer", of_once::<AtomicPtr<T>>() + of_slice().0);
    }

    /// Whether a handle is of an object that `is_it`, which must not use the table. Other threads may free it meanwhile.
    pub fn is(&self, handle: c_int, is_it: impl Fn(&T) -> bool) -> bool {
        let index = made_index(handle, self.object);
        let Some(slot) = index.and_then(|index| self.slot(index)) else {
            return false;
        };
        let _vacant = self.vacant.lock();
        // SAFETY: null, or the pointer of an `Arc` that the table has until `take` gets the lock.
        unsafe { slot.load(Ordering::Acquire).as_ref() }.is_some_and(is_it)
    }

    /// The first handle of an object that `is_it`, which must not use the table. Other threads may free what they like
    /// meanwhile.
    pub fn find(&self, is_it: impl Fn(&T) -> bool) -> Option<c_int> {
        let vacant = self.vacant.lock();
        let found = (0..vacant.next).find(|index| {
            let object = self
                .slot(*index)
                .map_or(ptr::null_mut(), |slot| slot.load(Ordering::Acquire));
            // SAFETY: null, or the pointer of an `Arc` that the table has until `take` gets the lock.
            unsafe { object.as_ref() }.is_some_and(&is_it)
        });
        found.map(|index| made(self.object, index))
    }

    /// Handles of all objects in the table.
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

/// Takes the object out of a slot if `is_it`. Who calls has the lock of the table.
#[inline]
fn take_out<T>(slot: &AtomicPtr<T>, is_it: impl Fn(&T) -> bool) -> Option<Arc<T>> {
    let object = slot.load(Ordering::Acquire);
    // SAFETY: null, or the pointer of an `Arc` that the table has until it is taken out with the lock.
    let found = unsafe { object.as_ref() };
    if !found.is_some_and(is_it) {
        return None;
    }
    slot.store(ptr::null_mut(), Ordering::Release);
    // SAFETY: the pointer, not null, came from `Arc::into_raw`, and the store made this its only owner: with the lock
    // nobody else takes it out.
    Some(unsafe { Arc::from_raw(object) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_find_their_objects_until_freed() {
        let table = HandleTable::<String>::new(Type::Info);
        let handles: Vec<_> = (0..1000)
            .map(|i| table.insert(Arc::new(i.to_string())).unwrap())
            .collect();
        for (i, &handle) in handles.iter().enumerate() {
            assert_eq!(table.get(handle), Some(&i.to_string()));
            assert_eq!(table.get_arc(handle).as_deref(), Some(&i.to_string()));
            let early = table.get_early(handle);
            assert_eq!(early, (i < FIRST as usize).then_some(&i.to_string()));
        }
        assert_eq!(table.handles(), handles);
        assert_eq!(
            table.remove(handles[500]).as_deref(),
            Some(&"500".to_string())
        );
        assert!(table.get(handles[500]).is_none());
        assert!(table.remove(handles[500]).is_none());
        assert_eq!(table.insert(Arc::new("again".into())), Some(handles[500]));
        // One that is kept from others comes back later.
        assert!(table.take(handles[7]).is_some() && table.take(handles[7]).is_none());
        let next = table.insert(Arc::new("next".into()));
        assert_ne!(next, Some(handles[7]));
        table.give_back(handles[7]);
        assert_eq!(table.insert(Arc::new("last".into())), Some(handles[7]));
    }

    /// What is looked for is found while other threads make and free objects that are looked at on the way.
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
    fn made_up_handles_are_found_out() {
        let table = HandleTable::<u8>::new(Type::Comm);
        assert!(table.get_early(made(Type::Comm, 0)).is_none());
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
            assert!(table.get(wrong).is_none(), "{wrong:#x}");
            assert!(table.get_early(wrong).is_none(), "{wrong:#x}");
        }
    }
}
