//! Attribute caching (MPI-3.1 section 6.7), for any kind of object that attributes hang on.
//!
//! `O` is the object as callbacks get it, and `V` the attribute's value as the binding on top needs
//! it (which language set it matters there, section 17.2.7).
//!
//! No lock is held while a callback runs, so that it may set, read and delete attributes of the
//! same object. Where callbacks of several attributes run, those for copying go in the order in
//! which the attributes were set, and those for deleting in the opposite order, as section 8.7.1
//! wants it for `MPI_COMM_SELF`.

use std::any::Any;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::thread::ThreadId;

mod quick;
#[cfg(test)]
mod tests;

use crate::local::{Held, Local};
use crate::{Class, Error, Result};
use quick::Quick;

/// The value of an attribute.
pub trait AttributeValue: Clone {
    /// The whole value as one word, if it is one: such values are found without a lock.
    fn word(&self) -> Option<usize>;
}

/// Called on the old object when it is duplicated: the value for the new object, or `None` to
/// leave the attribute out.
pub type CopyFn<O, V> = dyn Fn(&O, &Keyval<O, V>, V) -> Result<Option<V>> + Send + Sync;

/// Called before an attribute goes.
pub type DeleteFn<O, V> = dyn Fn(&O, &Keyval<O, V>, V) -> Result<()> + Send + Sync;

/// A key for attributes with its callbacks. It and they live as long as an attribute uses them,
/// also when the program has freed its handle.
pub struct Keyval<O: ?Sized, V>(Arc<Callbacks<O, V>>);

struct Callbacks<O: ?Sized, V> {
    copy: Option<Arc<CopyFn<O, V>>>,
    delete: Option<Arc<DeleteFn<O, V>>>,
    /// What [`Attributes::peek`] knows it by, or 0.
    mark: AtomicUsize,
    /// Goes with the key.
    _held: Option<Box<dyn Any + Send + Sync>>,
}

/// A key that lives only as long as attributes use it.
pub struct WeakKeyval<O: ?Sized, V>(Weak<Callbacks<O, V>>);

impl<O: ?Sized, V> WeakKeyval<O, V> {
    /// The key, if attributes use it.
    pub fn upgrade(&self) -> Option<Keyval<O, V>> {
        self.0.upgrade().map(Keyval)
    }
}

impl<O: ?Sized, V> Keyval<O, V> {
    /// A new key. No copy callback means that attributes are not copied (`MPI_COMM_NULL_COPY_FN`),
    /// no delete callback that nothing is to be done (`MPI_COMM_NULL_DELETE_FN`).
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

    /// As [`Keyval::new`]; `held` is dropped when neither the program nor an attribute uses the key
    /// any more.
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

    /// Gives it a number other than 0, which no other key has as long as it lives. To be called before it is used.
    pub fn set_mark(&self, mark: usize) {
        self.0.mark.store(mark, Ordering::Relaxed);
    }

    /// The key without keeping it alive.
    pub fn downgrade(&self) -> WeakKeyval<O, V> {
        WeakKeyval(Arc::downgrade(&self.0))
    }

    /// Whether both are the same key.
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
    /// Those of the list that are found without its lock, under which it is changed.
    quick: Quick,
}

struct List<O: ?Sized, V> {
    /// In the order in which they were set.
    entries: Vec<Entry<O, V>>,
    next_serial: u64,
}

struct Entry<O: ?Sized, V> {
    keyval: Keyval<O, V>,
    value: V,
    /// Tells this entry from a later one of the same key.
    serial: u64,
    /// The thread in which its delete callback is running: it can still be read, but not deleted once more.
    going: Option<ThreadId>,
    /// What will be in its place when it has gone.
    successor: Option<V>,
}

impl<O: ?Sized, V> Entry<O, V> {
    /// What a duplicate gets. Where the value is being replaced, that is the next one: of the old the delete callback may
    /// have freed what it stands for already.
    fn to_copy(&self) -> Option<&V> {
        match self.going {
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
            quick: Quick::default(),
        }
    }
}

impl<O: ?Sized, V> List<O, V> {
    /// The entry of a key; one that is not being deleted, if there is one.
    fn find(&mut self, keyval: &Keyval<O, V>) -> Option<&mut Entry<O, V>> {
        let of_key = |entry: &&mut Entry<O, V>| entry.keyval.is_same(keyval);
        let entries = self.entries.iter_mut().filter(of_key);
        entries.min_by_key(|entry| entry.going.is_some())
    }

    fn push(&mut self, keyval: &Keyval<O, V>, value: V) {
        self.entries.push(Entry {
            keyval: keyval.clone(),
            value,
            serial: self.next_serial,
            going: None,
            successor: None,
        });
        self.next_serial += 1;
    }

    /// Keys and values that a duplicate gets, in the order in which they were set: of each key the latest.
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
    /// No attributes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets an attribute (`MPI_Comm_set_attr`). One that is there is deleted first, with its
    /// callback.
    ///
    /// # Errors
    ///
    /// That of the delete callback; the old attribute then stays.
    pub fn set(&self, object: &O, keyval: &Keyval<O, V>, value: V) -> Result<()> {
        let mut list = self.list.lock();
        let mut gone = Vec::new();
        // As often as callbacks or other threads set the key anew in between.
        while let Some(entry) = list.find(keyval).filter(|entry| entry.going.is_none()) {
            entry.successor = Some(value.clone());
            let taken = take(entry);
            self.publish(&list);
            drop(list);
            let (after, old) = self.finish(object, taken)?;
            // With the lock that the old one has gone with: at no time there is neither.
            list = after;
            gone.push(old);
        }
        list.push(keyval, value);
        self.publish(&list);
        drop(list);
        drop(gone);
        Ok(())
    }

    /// As [`Attributes::set`] of the key with this [mark](Keyval::set_mark), if that is set and has no delete callback.
    /// Returns whether it is.
    pub fn replace(&self, mark: usize, value: V) -> bool {
        let mut list = self.list.lock();
        let is_plain = |entry: &Entry<O, V>| {
            entry.keyval.0.mark.load(Ordering::Relaxed) == mark
                && entry.going.is_none()
                && entry.keyval.0.delete.is_none()
        };
        let Some(at) = list.entries.iter().position(is_plain) else {
            return false;
        };
        // In the order in which they were set.
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

    /// The value of the attribute whose key has this [mark](Keyval::set_mark), if it is set, without a lock; `None` if only
    /// [`Attributes::get`] can tell.
    #[inline]
    pub fn peek(&self, mark: usize) -> Option<Option<usize>> {
        self.quick.find(mark)
    }

    /// Whether there have never been any, or all have been deleted, as far as that is known without a lock.
    #[inline]
    pub fn are_none(&self) -> bool {
        self.quick.is_empty()
    }

    /// Lets the list be looked at without its lock.
    fn publish(&self, list: &List<O, V>) {
        self.quick.publish(list.entries.iter().map(|entry| {
            let word = entry.value.word().filter(|_| entry.going.is_none())?;
            Some((entry.keyval.0.mark.load(Ordering::Relaxed), word))
        }));
    }

    /// The value of an attribute, if it is set (`MPI_Comm_get_attr`).
    pub fn get(&self, keyval: &Keyval<O, V>) -> Option<V> {
        self.list
            .lock()
            .find(keyval)
            .map(|entry| entry.value.clone())
    }

    /// Deletes an attribute, after its callback (`MPI_Comm_delete_attr`); false if it is not set, or another
    /// thread is deleting it.
    ///
    /// # Errors
    ///
    /// That of the callback, and the attribute then stays; `MPI_ERR_KEYVAL` if its callback is
    /// running already in this thread.
    pub fn delete(&self, object: &O, keyval: &Keyval<O, V>) -> Result<bool> {
        let mut list = self.list.lock();
        let taken = match list.find(keyval) {
            None => return Ok(false),
            Some(Entry {
                going: Some(thread),
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

    /// Deletes all attributes, that set last first, before the object itself goes. Attributes that
    /// callbacks set meanwhile are deleted as well.
    ///
    /// # Errors
    ///
    /// That of the first callback that fails: its attribute and those set before it stay.
    pub fn delete_all(&self, object: &O) -> Result<()> {
        loop {
            let mut list = self.list.lock();
            let Some(entry) = list.entries.iter_mut().rfind(|entry| entry.going.is_none()) else {
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

    /// Copies to a duplicate what the copy callbacks want to be copied (`MPI_Comm_dup`): `self` are
    /// the attributes of `old`, `copies` those of `new`. Of one that another thread is replacing the new value is copied.
    ///
    /// # Errors
    ///
    /// That of the first callback that fails; attributes copied until then are deleted again, with
    /// their callbacks.
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
                // The first error is the one to report.
                let _ = copies.delete_all(new);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.list.lock().entries.is_empty()
    }

    /// Runs the delete callback of an entry that was marked as going, without the lock, and then
    /// removes the entry, which is to be dropped after the lock, since its key may be the last of its kind; or, where the
    /// callback failed, unmarks it.
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
        let at = at.expect("only who marked an entry removes it");
        if let Err(error) = result {
            if replaced {
                let gone = list.entries.remove(at);
                self.publish(&list);
                drop(list);
                drop(gone);
            } else {
                list.entries[at].going = None;
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

type Finished<'a, O, V> = Result<(Held<'a, List<O, V>>, Entry<O, V>)>;

/// Marks an entry as going and gives what its callback needs.
fn take<O: ?Sized, V: Clone>(entry: &mut Entry<O, V>) -> (Keyval<O, V>, V, u64) {
    entry.going = Some(std::thread::current().id());
    (entry.keyval.clone(), entry.value.clone(), entry.serial)
}
