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
use std::sync::{Arc, Weak};
use std::thread::ThreadId;

use parking_lot::{Mutex, MutexGuard};

use crate::{Class, Error, Result};

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
            _held: Some(held),
        }))
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
pub struct Attributes<O: ?Sized, V>(Mutex<List<O, V>>);

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
        Attributes(Mutex::new(List {
            entries: Vec::new(),
            next_serial: 0,
        }))
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

impl<O: ?Sized, V: Clone> Attributes<O, V> {
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
        let mut list = self.0.lock();
        let mut gone = Vec::new();
        // As often as callbacks or other threads set the key anew in between.
        while let Some(entry) = list.find(keyval).filter(|entry| entry.going.is_none()) {
            entry.successor = Some(value.clone());
            let taken = take(entry);
            drop(list);
            let (after, old) = self.finish(object, taken)?;
            // With the lock that the old one has gone with: at no time there is neither.
            list = after;
            gone.push(old);
        }
        list.push(keyval, value);
        drop(list);
        drop(gone);
        Ok(())
    }

    /// The value of an attribute, if it is set (`MPI_Comm_get_attr`).
    pub fn get(&self, keyval: &Keyval<O, V>) -> Option<V> {
        self.0.lock().find(keyval).map(|entry| entry.value.clone())
    }

    /// Deletes an attribute, after its callback (`MPI_Comm_delete_attr`); false if it is not set, or another
    /// thread is deleting it.
    ///
    /// # Errors
    ///
    /// That of the callback, and the attribute then stays; `MPI_ERR_KEYVAL` if its callback is
    /// running already in this thread.
    pub fn delete(&self, object: &O, keyval: &Keyval<O, V>) -> Result<bool> {
        let mut list = self.0.lock();
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
            let mut list = self.0.lock();
            let Some(entry) = list.entries.iter_mut().rfind(|entry| entry.going.is_none()) else {
                return Ok(());
            };
            let taken = take(entry);
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
        let list = self.0.lock();
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
        self.0.lock().entries.is_empty()
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
        let mut list = self.0.lock();
        let other = |e: &Entry<O, V>| e.serial != serial && e.keyval.is_same(&keyval);
        let replaced = list.entries.iter().any(other);
        let at = list.entries.iter().position(|entry| entry.serial == serial);
        let at = at.expect("only who marked an entry removes it");
        if let Err(error) = result {
            if replaced {
                let gone = list.entries.remove(at);
                drop(list);
                drop(gone);
            } else {
                list.entries[at].going = None;
                list.entries[at].successor = None;
            }
            return Err(error);
        }
        let gone = list.entries.remove(at);
        Ok((list, gone))
    }
}

type Finished<'a, O, V> = Result<(MutexGuard<'a, List<O, V>>, Entry<O, V>)>;

/// Marks an entry as going and gives what its callback needs.
fn take<O: ?Sized, V: Clone>(entry: &mut Entry<O, V>) -> (Keyval<O, V>, V, u64) {
    entry.going = Some(std::thread::current().id());
    (entry.keyval.clone(), entry.value.clone(), entry.serial)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    /// An object with attributes that writes down what callbacks do.
    #[derive(Default)]
    struct Thing {
        name: &'static str,
        attributes: Attributes<Thing, usize>,
        log: Arc<Mutex<Vec<String>>>,
    }

    type Key = Keyval<Thing, usize>;

    fn logging(tag: &'static str) -> Key {
        Keyval::new(
            Some(Arc::new(move |thing: &Thing, _: &Key, value| {
                thing
                    .log
                    .lock()
                    .push(format!("copy {tag}={value} of {}", thing.name));
                Ok((value != 0).then_some(value + 1))
            })),
            Some(Arc::new(move |thing: &Thing, _: &Key, value| {
                thing
                    .log
                    .lock()
                    .push(format!("delete {tag}={value} of {}", thing.name));
                Ok(())
            })),
        )
    }

    fn thing(name: &'static str) -> Thing {
        Thing {
            name,
            ..Thing::default()
        }
    }

    fn log(thing: &Thing) -> String {
        std::mem::take(&mut *thing.log.lock()).join(", ")
    }

    #[test]
    fn set_get_replace_delete() {
        let (x, a, b) = (thing("x"), logging("a"), logging("b"));
        assert_eq!(x.attributes.get(&a), None);
        x.attributes.set(&x, &a, 1).unwrap();
        x.attributes.set(&x, &b, 2).unwrap();
        assert_eq!(
            (x.attributes.get(&a), x.attributes.get(&b)),
            (Some(1), Some(2))
        );
        x.attributes.set(&x, &a, 3).unwrap();
        assert_eq!(log(&x), "delete a=1 of x");
        assert!(x.attributes.delete(&x, &b).unwrap());
        assert!(!x.attributes.delete(&x, &b).unwrap());
        assert_eq!(log(&x), "delete b=2 of x");
        assert_eq!(x.attributes.get(&a), Some(3));
    }

    #[test]
    fn copies_in_order_and_deletes_in_reverse() {
        let (x, mut y) = (thing("x"), thing("y"));
        y.log = x.log.clone();
        let (a, b, c) = (logging("a"), logging("b"), logging("c"));
        let silent = Keyval::new(None, None);
        for (key, value) in [(&c, 5), (&a, 7), (&silent, 9), (&b, 0)] {
            x.attributes.set(&x, key, value).unwrap();
        }
        x.attributes.copy_all(&x, &y.attributes, &y).unwrap();
        assert_eq!(log(&x), "copy c=5 of x, copy a=7 of x, copy b=0 of x");
        assert_eq!(y.attributes.get(&a), Some(8));
        assert_eq!(y.attributes.get(&b), None, "a copy was refused");
        assert_eq!(y.attributes.get(&silent), None);
        drop((a, b, c)); // Freed keyvals keep their callbacks.
        x.attributes.delete_all(&x).unwrap();
        assert_eq!(log(&x), "delete b=0 of x, delete a=7 of x, delete c=5 of x");
        assert!(x.attributes.is_empty());
    }

    #[test]
    fn errors_of_callbacks() {
        let fails = Arc::new(AtomicU32::new(1));
        let counter = fails.clone();
        let picky = Key::new(
            Some(Arc::new(|_: &Thing, _: &Key, _| {
                Err(Error::new(Class::User(77), "no copy"))
            })),
            Some(Arc::new(move |_: &Thing, _: &Key, _| {
                match counter.load(Ordering::Relaxed) {
                    0 => Ok(()),
                    _ => Err(Error::new(Class::User(78), "not now")),
                }
            })),
        );
        let (x, mut y, a) = (thing("x"), thing("y"), logging("a"));
        y.log = x.log.clone();
        x.attributes.set(&x, &a, 1).unwrap();
        x.attributes.set(&x, &picky, 2).unwrap();
        let error = x.attributes.copy_all(&x, &y.attributes, &y).unwrap_err();
        assert_eq!(error.class(), Class::User(77));
        assert_eq!(log(&x), "copy a=1 of x, delete a=2 of y");
        assert!(y.attributes.is_empty());

        let class = |result: Result<()>| result.unwrap_err().class();
        assert_eq!(class(x.attributes.set(&x, &picky, 3)), Class::User(78));
        assert_eq!(class(x.attributes.delete_all(&x)), Class::User(78));
        assert_eq!(x.attributes.get(&picky), Some(2));
        assert_eq!(x.attributes.get(&a), Some(1));
        fails.store(0, Ordering::Relaxed);
        x.attributes.delete_all(&x).unwrap();
        assert!(x.attributes.is_empty());
    }

    #[test]
    fn two_threads_may_delete_at_the_same_time() {
        let (begun, both) = (std::sync::Barrier::new(2), std::sync::Barrier::new(2));
        let (begun, both) = (Arc::new(begun), Arc::new(both));
        let waits = (begun.clone(), both.clone());
        let slow = Key::new(
            None,
            Some(Arc::new(move |_: &Thing, _: &Key, _| {
                waits.0.wait();
                waits.1.wait();
                Ok(())
            })),
        );
        let x = thing("x");
        x.attributes.set(&x, &slow, 1).unwrap();
        std::thread::scope(|scope| {
            let first = scope.spawn(|| x.attributes.delete(&x, &slow));
            begun.wait();
            assert!(!x.attributes.delete(&x, &slow).unwrap());
            both.wait();
            assert!(first.join().unwrap().unwrap());
        });
        assert!(x.attributes.is_empty());
    }

    #[test]
    fn what_one_thread_replaces_another_copies_old_or_new() {
        const TIMES: usize = 2000;
        let copying = || -> Arc<CopyFn<Thing, usize>> { Arc::new(|_, _, value| Ok(Some(value))) };
        let (begun, both) = (std::sync::Barrier::new(2), std::sync::Barrier::new(2));
        let (begun, both) = (Arc::new(begun), Arc::new(both));
        let waits = (begun.clone(), both.clone());
        let slow = Key::new(
            Some(copying()),
            Some(Arc::new(move |_: &Thing, _: &Key, value| {
                if value == 1 {
                    waits.0.wait();
                    waits.1.wait();
                }
                Ok(())
            })),
        );
        let quick = Key::new(Some(copying()), None);
        let (x, y) = (thing("x"), thing("y"));
        x.attributes.set(&x, &slow, 1).unwrap();
        x.attributes.set(&x, &quick, 1).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| x.attributes.set(&x, &slow, 2).unwrap());
            begun.wait();
            x.attributes.copy_all(&x, &y.attributes, &y).unwrap();
            both.wait();
            assert!(y.attributes.get(&slow).is_some());
            // Between the two there is no moment without a value, either.
            scope.spawn(|| {
                for value in 0..TIMES {
                    x.attributes.set(&x, &quick, value).unwrap();
                }
            });
            for _ in 0..TIMES {
                let copy = thing("copy");
                x.attributes.copy_all(&x, &copy.attributes, &copy).unwrap();
                assert!(copy.attributes.get(&quick).is_some());
                assert!(copy.attributes.get(&slow).is_some());
            }
        });
        assert_eq!(x.attributes.get(&slow), Some(2));
    }

    #[test]
    fn a_value_whose_setting_failed_is_not_copied_later() {
        let stubborn = Key::new(
            Some(Arc::new(|_: &Thing, _: &Key, value| Ok(Some(value)))),
            Some(Arc::new(|_: &Thing, _: &Key, _| {
                Err(Error::new(Class::User(79), "it stays"))
            })),
        );
        let (x, y) = (thing("x"), thing("y"));
        x.attributes.set(&x, &stubborn, 1).unwrap();
        x.attributes.set(&x, &stubborn, 2).unwrap_err();
        x.attributes.copy_all(&x, &y.attributes, &y).unwrap();
        assert_eq!(y.attributes.get(&stubborn), Some(1));
    }

    #[test]
    fn callbacks_may_use_the_same_object() {
        let (x, other) = (thing("x"), logging("other"));
        let inner = other.clone();
        let busy = Key::new(
            None,
            Some(Arc::new(move |x: &Thing, me: &Key, value| {
                assert_eq!(x.attributes.get(me), Some(value));
                let again = x.attributes.delete(x, me).unwrap_err();
                assert_eq!(again.class(), Class::Keyval);
                x.attributes.set(x, &inner, value + 1)?;
                if value < 3 {
                    x.attributes.set(x, me, value + 1)?;
                }
                Ok(())
            })),
        );
        x.attributes.set(&x, &busy, 1).unwrap();
        x.attributes.delete(&x, &busy).unwrap();
        assert_eq!(x.attributes.get(&busy), Some(2), "set by its own callback");
        assert_eq!(x.attributes.get(&other), Some(2));
        x.attributes.set(&x, &busy, 9).unwrap();
        assert_eq!(x.attributes.get(&busy), Some(9));
        x.attributes.delete_all(&x).unwrap();
        assert!(x.attributes.is_empty());
        assert!(log(&x).ends_with("delete other=10 of x"));
    }
}
