use std::sync::atomic::AtomicU32;

use parking_lot::Mutex;

use super::*;

/// An object with attributes that writes down what callbacks do.
#[derive(Default)]
struct Thing {
    name: &'static str,
    attributes: Attributes<Thing, usize>,
    log: Arc<Mutex<Vec<String>>>,
}

impl AttributeValue for usize {
    /// Even ones are.
    fn word(&self) -> Option<usize> {
        self.is_multiple_of(2).then_some(*self)
    }
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
fn without_the_lock_the_same_is_found() {
    let x = thing("x");
    let keys: Vec<Key> = (1..=7).map(|_| Keyval::new(None, None)).collect();
    for (key, mark) in keys.iter().zip(1..) {
        key.set_mark(mark);
    }
    assert_eq!(x.attributes.peek(1), Some(None));
    assert!(x.attributes.is_empty_unlocked() && !x.attributes.replace(1, 2));
    // What is known without the lock is right; what is not known isn't held to be unset.
    let check = |sets: &[Option<usize>]| {
        for (key, (mark, set)) in keys.iter().zip((1..).zip(sets)) {
            assert_eq!(x.attributes.get(key), *set);
            if let Some(found) = x.attributes.peek(mark) {
                assert_eq!(found, *set, "of key {mark}");
            }
        }
    };
    let mut sets = [None; 7];
    for turn in 0_usize..2000 {
        let at = turn * turn / 3 % 7;
        match turn % 5 {
            0 => {
                x.attributes.delete(&x, &keys[at]).unwrap();
                sets[at] = None;
            }
            1 | 2 => {
                let was_set = sets[at].is_some();
                assert_eq!(x.attributes.replace(at + 1, turn), was_set);
                sets[at] = was_set.then_some(turn);
            }
            _ => {
                x.attributes.set(&x, &keys[at], turn).unwrap();
                sets[at] = Some(turn);
            }
        }
        check(&sets);
    }
    x.attributes.delete_all(&x).unwrap();
    assert!(x.attributes.is_empty_unlocked());
    x.attributes.set(&x, &keys[0], 8).unwrap();
    assert_eq!(x.attributes.peek(1), Some(Some(8)));
    assert_eq!(x.attributes.peek(2), Some(None));
    assert!(!x.attributes.is_empty_unlocked());
    // One with a delete callback is not replaced without it.
    let a = logging("a");
    a.set_mark(8);
    x.attributes.set(&x, &a, 2).unwrap();
    assert!(!x.attributes.replace(8, 4));
    assert_eq!(x.attributes.peek(8), Some(Some(2)));
}

#[test]
fn what_is_replaced_comes_last() {
    let (x, mut y) = (thing("x"), thing("y"));
    y.log = x.log.clone();
    let copied = |tag: &'static str, mark| {
        let copy = move |thing: &Thing, _: &Key, value| {
            thing.log.lock().push(format!("copy {tag}={value}"));
            Ok(Some(value))
        };
        let key = Key::new(Some(Arc::new(copy)), None);
        key.set_mark(mark);
        key
    };
    let (a, b) = (copied("a", 1), copied("b", 2));
    x.attributes.set(&x, &a, 2).unwrap();
    x.attributes.set(&x, &b, 4).unwrap();
    assert!(x.attributes.replace(1, 6));
    x.attributes.copy_all(&x, &y.attributes, &y).unwrap();
    assert_eq!(log(&x), "copy b=4, copy a=6");
}

/// While one thread sets and deletes, others find a value that was set, or none.
#[test]
fn what_others_find_meanwhile_was_set() {
    let x: Attributes<(), usize> = Attributes::new();
    let keys = [1, 2].map(|mark| {
        let key: Keyval<(), usize> = Keyval::new(None, None);
        key.set_mark(mark);
        key
    });
    let over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    for mark in [1, 2] {
                        let found = x.peek(mark).flatten();
                        assert!(found.is_none_or(|value| value % 10 == 2 * mark));
                    }
                }
            });
        }
        for turn in 0..20_000 {
            let (key, mark) = (&keys[turn % 2], turn % 2 + 1);
            match turn % 3 {
                0 => drop(x.delete(&(), key).unwrap()),
                1 => drop(x.replace(mark, turn * 10 + 2 * mark)),
                _ => x.set(&(), key, turn * 10 + 2 * mark).unwrap(),
            }
        }
        over.store(true, Ordering::Relaxed);
    });
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
    let copied_key = Key::new(Some(copying()), None);
    let (x, y) = (thing("x"), thing("y"));
    x.attributes.set(&x, &slow, 1).unwrap();
    x.attributes.set(&x, &copied_key, 1).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| x.attributes.set(&x, &slow, 2).unwrap());
        begun.wait();
        x.attributes.copy_all(&x, &y.attributes, &y).unwrap();
        both.wait();
        assert!(y.attributes.get(&slow).is_some());
        // Between the two there is no moment without a value, either.
        scope.spawn(|| {
            for value in 0..TIMES {
                x.attributes.set(&x, &copied_key, value).unwrap();
            }
        });
        for _ in 0..TIMES {
            let copy = thing("copy");
            x.attributes.copy_all(&x, &copy.attributes, &copy).unwrap();
            assert!(copy.attributes.get(&copied_key).is_some());
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
