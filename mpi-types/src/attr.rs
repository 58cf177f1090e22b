//! Attribute caching (MPI-3.1 section 6.7), for any object that has attributes.
//!
//! `O` is the object as callbacks receive it. `V` is an attribute's value as the language binding
//! needs it: section 17.2.7 makes the language that set it matter.
//!
//! No lock is held while a callback runs, so that it may set, read and delete attributes of the
//! same object. Copy callbacks run in the order in which the attributes were set, delete callbacks
//! in the reverse order (section 8.7.1 requires it for `MPI_COMM_SELF`).

use std::any::Any;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::thread::ThreadId;

mod seqlock;
#[cfg(test)]
mod tests;

use crate::local::{Local, LocalGuard};
use crate::{Class, Error, Result};
use seqlock::Seqlock;

/// The value of an attribute.
pub trait AttributeValue: Clone {
    /// Returns the value as one word, if it fits one: such values are read without a lock.
    fn word(&self) -> Option<usize>;
}

/// Returns the value for the duplicate of an object, or `None` to leave the attribute out.
pub type CopyFn<O, V> = dyn Fn(&O, &Keyval<O, V>, V) -> Result<Option<V>> + Send + Sync;

/// Runs before an attribute is deleted or replaced.
pub type DeleteFn<O, V> = dyn Fn(&O, &Keyval<O, V>, V) -> Result<()> + Send + Sync;

/// A key for attributes, with its callbacks. It lives as long as an attribute uses it, even after
/// the program has freed its handle.
pub struct Keyval<O: ?Sized, V>(Arc<Callbacks<O, V>>);

struct Callbacks<O: ?Sized, V> {
    copy: Option<Arc<CopyFn<O, V>>>,
    delete: Option<Arc<DeleteFn<O, V>>>,
    /// Identifies the key to [`Attributes::peek`], or 0.
    mark: AtomicUsize,
    /// Dropped with the key.
    _held: Option<Box<dyn Any + Send + Sync>>,
}

/// A reference to a key that does not keep it alive.
pub struct WeakKeyval<O: ?Sized, V>(Weak<Callbacks<O, V>>);

impl<O: ?Sized, V> WeakKeyval<O, V> {
    /// Returns the key, if it is still in use.
    pub fn upgrade(&self) -> Option<Keyval<O, V>> {
        self.0.upgrade().map(Keyval)
    }
}

impl<O: ?Sized, V> Keyval<O, V> {
    /// Creates a key. Without a copy callback attributes are not copied (`MPI_COMM_NULL_COPY_FN`);
    /// without a delete callback they are deleted silently (`MPI_COMM_NULL_DELETE_FN`).
    pub fn new(
        copy: Option<Arc<CopyFn<O, V>>>,
        delete: Option<Arc<DeleteFn<O, V>>>,
    ) -> Keyval<O, V> {
        Keyval(Arc::new(Callbacks {
            copy,
            delete,
            mark: AtomicUsize::new(0),
            _held: None,
        }))
    }

    /// Creates a key that drops `held` when neither the program nor an attribute uses it any more.
    pub fn holding(
        copy: Option<Arc<CopyFn<O, V>>>,
        delete: Option<Arc<DeleteFn<O, V>>>,
        held: Box<dyn Any + Send + Sync>,
    ) -> Keyval<O, V> {
        Keyval(Arc::new(Callbacks {
            copy,
            delete,
            mark: AtomicUsize::new(0),
            _held: Some(held),
        }))
    }

    /// Sets a nonzero number that no other living key has. Must be called before the key is used.
    pub fn set_mark(&self, mark: usize) {
        self.0.mark.store(mark, Ordering::Relaxed);
    }

    /// Returns a reference that does not keep the key alive.
    pub fn downgrade(&self) -> WeakKeyval<O, V> {
        WeakKeyval(Arc::downgrade(&self.0))
    }

    /// Returns whether both are the same key.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl<O: ?Sized, V> Clone for Keyval<O, V> {
    fn clone(&self) -> Self {
        Keyval(self.0.clone())
    }
}

/// The attributes of one object.
pub struct Attributes<O: ?Sized, V> {
    list: Local<List<O, V>>,
    /// The part of the list that is readable without its lock; written under it.
    lock_free: Seqlock,
}

struct List<O: ?Sized, V> {
    /// In the order in which they were set.
    entries: Vec<Entry<O, V>>,
    next_serial: u64,
}

struct Entry<O: ?Sized, V> {
    keyval: Keyval<O, V>,
    value: V,
    /// Distinguishes this entry from a later one of the same key.
    serial: u64,
    /// The thread whose delete callback is running: the entry can still be read, but not deleted
    /// again.
    deleting: Option<ThreadId>,
    /// The value that replaces this one once the callback has returned.
    successor: Option<V>,
}

impl<O: ?Sized, V> Entry<O, V> {
    /// Returns the value to copy to a duplicate. While the value is being replaced that is the new
    /// one: the delete callback may already have freed what the old one refers to.
    fn to_copy(&self) -> Option<&V> {
        match self.deleting {
            None => Some(&self.value),
            Some(_) => self.successor.as_ref(),
        }
    }
}

impl<O: ?Sized, V> Default for Attributes<O, V> {
    fn default() -> Self {
        let list = List {
            entries: Vec::new(),
            next_serial: 0,
        };
        Attributes {
            list: Local::new(list),
            lock_free: Seqlock::default(),
        }
    }
}

impl<O: ?Sized, V> List<O, V> {
    /// Returns the entry of a key, preferring one that is not being deleted.
    fn find(&mut self, keyval: &Keyval<O, V>) -> Option<&mut Entry<O, V>> {
        let of_key = |entry: &&mut Entry<O, V>| entry.keyval.is_same(keyval);
        let entries = self.entries.iter_mut().filter(of_key);
        entries.min_by_key(|entry| entry.deleting.is_some())
    }

    fn push(&mut self, keyval: &Keyval<O, V>, value: V) {
        self.entries.push(Entry {
            keyval: keyval.clone(),
            value,
            serial: self.next_serial,
            deleting: None,
            successor: None,
        });
        self.next_serial += 1;
    }

    /// Returns the keys and values to copy to a duplicate, in the order set: the latest value of
    /// each key.
    fn to_copy(&self) -> impl Iterator<Item = (&Keyval<O, V>, &V)> {
        let entries = self.entries.iter().enumerate();
        entries.filter_map(|(at, entry)| {
            let mut later = self.entries[at + 1..].iter();
            let replaced =
                later.any(|one| one.keyval.is_same(&entry.keyval) && one.to_copy().is_some());
            let value = entry.to_copy().filter(|_| !replaced)?;
            Some((&entry.keyval, value))
        })
    }
}

impl<O: ?Sized, V: AttributeValue> Attributes<O, V> {
    /// Creates an empty set of attributes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets an attribute (`MPI_Comm_set_attr`). An existing value is deleted first, with its
    /// callback.
    ///
    /// # Errors
    ///
    /// The error of the delete callback; the old attribute then stays.
    pub fn set(&self, object: &O, keyval: &Keyval<O, V>, value: V) -> Result<()> {
        let mut list = self.list.lock();
        let mut gone = Vec::new();
        // Repeats if a callback or another thread sets the same key meanwhile.
        while let Some(entry) = list.find(keyval).filter(|entry| entry.deleting.is_none()) {
            entry.successor = Some(value.clone());
            let taken = take(entry);
            self.publish(&list);
            drop(list);
            let (after, old) = self.finish(object, taken)?;
            // The new value is pushed under the lock that removed the old one, so that the key is
            // always set.
            list = after;
            gone.push(old);
        }
        list.push(keyval, value);
        self.publish(&list);
        drop(list);
        drop(gone);
        Ok(())
    }

    /// Replaces the value of the key with this [mark](Keyval::set_mark), if it is set and has no
    /// delete callback. Returns whether it did.
    pub fn replace(&self, mark: usize, value: V) -> bool {
        let mut list = self.list.lock();
        let is_plain = |entry: &Entry<O, V>| {
            entry.keyval.0.mark.load(Ordering::Relaxed) == mark
                && entry.deleting.is_none()
                && entry.keyval.0.delete.is_none()
        };
        let Some(at) = list.entries.iter().position(is_plain) else {
            return false;
        };
        // A replaced value counts as set last.
        list.entries[at..].rotate_left(1);
        let serial = list.next_serial;
        list.next_serial += 1;
        let last = list.entries.len() - 1;
        let entry = &mut list.entries[last];
        entry.serial = serial;
        let old = std::mem::replace(&mut entry.value, value);
        self.publish(&list);
        drop(list);
        drop(old);
        true
    }

    /// Looks up the attribute whose key has this [mark](Keyval::set_mark) without a lock. Returns
    /// `None` if only [`Attributes::get`] can answer, `Some(None)` if the attribute is not set.
    #[inline]
    pub fn peek(&self, mark: usize) -> Option<Option<usize>> {
        self.lock_free.find(mark)
    }

    /// Returns whether the object has no attributes, without a lock. False if a change is in
    /// progress.
    #[inline]
    pub fn is_empty_unlocked(&self) -> bool {
        self.lock_free.is_empty()
    }

    /// Updates the part of the list that is readable without its lock.
    fn publish(&self, list: &List<O, V>) {
        self.lock_free.publish(list.entries.iter().map(|entry| {
            let word = entry.value.word().filter(|_| entry.deleting.is_none())?;
            Some((entry.keyval.0.mark.load(Ordering::Relaxed), word))
        }));
    }

    /// Returns the value of an attribute, if it is set (`MPI_Comm_get_attr`).
    pub fn get(&self, keyval: &Keyval<O, V>) -> Option<V> {
        self.list
            .lock()
            .find(keyval)
            .map(|entry| entry.value.clone())
    }

    /// Deletes an attribute after its callback (`MPI_Comm_delete_attr`). Returns false if it is not
    /// set, or if another thread is deleting it.
    ///
    /// # Errors
    ///
    /// The error of the callback, and the attribute then stays; `MPI_ERR_KEYVAL` if this thread is
    /// running its delete callback.
    pub fn delete(&self, object: &O, keyval: &Keyval<O, V>) -> Result<bool> {
        let mut list = self.list.lock();
        let taken = match list.find(keyval) {
            None => return Ok(false),
            Some(Entry {
                deleting: Some(thread),
                ..
            }) => {
                if *thread != std::thread::current().id() {
                    return Ok(false);
                }
                return Err(Error::new(
                    Class::Keyval,
                    "the attribute is being deleted already; its delete callback has not returned",
                ));
            }
            Some(entry) => take(entry),
        };
        self.publish(&list);
        drop(list);
        let (list, gone) = self.finish(object, taken)?;
        drop(list);
        drop(gone);
        Ok(true)
    }

    /// Deletes all attributes, the last set first, before the object is freed. Attributes that
    /// callbacks set meanwhile are deleted as well.
    ///
    /// # Errors
    ///
    /// The error of the first callback that fails: its attribute and those set before it stay.
    pub fn delete_all(&self, object: &O) -> Result<()> {
        loop {
            let mut list = self.list.lock();
            let Some(entry) = list
                .entries
                .iter_mut()
                .rfind(|entry| entry.deleting.is_none())
            else {
                return Ok(());
            };
            let taken = take(entry);
            self.publish(&list);
            drop(list);
            let (list, gone) = self.finish(object, taken)?;
            drop(list);
            drop(gone);
        }
    }

    /// Copies attributes to a duplicate, as their copy callbacks decide (`MPI_Comm_dup`): `self`
    /// belongs to `old`, `copies` to `new`. Of an attribute that another thread is replacing, the
    /// new value is copied.
    ///
    /// # Errors
    ///
    /// The error of the first callback that fails; attributes copied until then are deleted again,
    /// with their callbacks.
    pub fn copy_all(&self, old: &O, copies: &Attributes<O, V>, new: &O) -> Result<()> {
        let list = self.list.lock();
        let all = list
            .to_copy()
            .map(|(key, value)| (key.clone(), value.clone()));
        let all: Vec<_> = all.collect();
        drop(list);
        for (keyval, value) in all {
            let Some(copy) = &keyval.0.copy else { continue };
            let copied = copy(old, &keyval, value).and_then(|value| match value {
                Some(value) => copies.set(new, &keyval, value),
                None => Ok(()),
            });
            if let Err(error) = copied {
                // The caller gets the first error.
                let _ = copies.delete_all(new);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Returns whether the object has no attributes.
    pub fn is_empty(&self) -> bool {
        self.list.lock().entries.is_empty()
    }

    /// Runs the delete callback of a marked entry without the lock, then removes the entry; unmarks
    /// it if the callback failed. The caller drops the entry after the lock: it may hold the last
    /// reference to its key.
    fn finish(
        &self,
        object: &O,
        (keyval, value, serial): (Keyval<O, V>, V, u64),
    ) -> Finished<'_, O, V> {
        let result = match &keyval.0.delete {
            Some(delete) => delete(object, &keyval, value),
            None => Ok(()),
        };
        let mut list = self.list.lock();
        let other = |e: &Entry<O, V>| e.serial != serial && e.keyval.is_same(&keyval);
        let replaced = list.entries.iter().any(other);
        let at = list.entries.iter().position(|entry| entry.serial == serial);
        let at =
            at.expect("internal error: an attribute was removed while its delete callback ran");
        if let Err(error) = result {
            if replaced {
                let gone = list.entries.remove(at);
                self.publish(&list);
                drop(list);
                drop(gone);
            } else {
                list.entries[at].deleting = None;
                list.entries[at].successor = None;
                self.publish(&list);
            }
            return Err(error);
        }
        let gone = list.entries.remove(at);
        self.publish(&list);
        Ok((list, gone))
    }
}

type Finished<'a, O, V> = Result<(LocalGuard<'a, List<O, V>>, Entry<O, V>)>;

/// Marks an entry as being deleted and returns what its callback needs.
fn take<O: ?Sized, V: Clone>(entry: &mut Entry<O, V>) -> (Keyval<O, V>, V, u64) {
    entry.deleting = Some(std::thread::current().id());
    (entry.keyval.clone(), entry.value.clone(), entry.serial)
}
