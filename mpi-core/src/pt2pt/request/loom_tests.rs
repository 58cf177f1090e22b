//! Concurrent uses of requests, in every order that the memory model allows.
//!
//! Run with `RUSTFLAGS="--cfg loom" cargo test -p mpi-core --lib loom_tests`.

use loom::thread;

use super::*;

fn check(test: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(test);
}

fn status(tag: i32) -> Status {
    Status {
        source: 1,
        tag,
        bytes: tag as u64 * 10,
        cancelled: Cancelled::No,
    }
}

/// A waiter that sees a request complete sees its result, its error and the data.
#[test]
fn results_are_published_whole() {
    check(|| {
        let table = RequestTable::new();
        let mut records = Records::new(table.clone(), 0);
        let id = records.start(7).unwrap().0;
        let data = Arc::new(UnsafeCell::new(0));
        struct Shared(Arc<UnsafeCell<u32>>);
        // SAFETY: the request hands the data over; loom checks the accesses.
        unsafe impl Send for Shared {}
        let (theirs, seen) = (Shared(data.clone()), table.clone());
        let waiter = thread::spawn(move || {
            let shared = theirs;
            let request = seen.get(id).unwrap();
            if !request.is_done() {
                return;
            }
            // SAFETY: the request is complete, so the other thread does not access the data any
            // more.
            assert_eq!(unsafe { *shared.0.get() }, 5);
            let (result, error) = request.result();
            assert_eq!((result, request.owner()), (status(3), 7));
            assert_eq!(error.unwrap().class(), crate::Class::Truncate);
        });
        // SAFETY: the request is active, so only this thread accesses the data.
        unsafe { *data.get() = 5 };
        let error = Error::new(crate::Class::Truncate, "");
        records.complete(id, status(3), Some(error));
        waiter.join().unwrap();
    });
}

/// Threads free requests while the VCI starts new ones: none is lost, none is started twice, and no
/// thread accesses the record of another's request.
#[test]
fn freed_requests_are_started_once() {
    check(|| {
        let table = RequestTable::new();
        let mut records = Records::new(table.clone(), 0);
        let returned = records.returned();
        let ids: Vec<_> = (0..BLOCK).map(|_| records.start(0).unwrap().0).collect();
        for &id in &ids {
            records.complete(id, status(1), None);
        }
        let givers: Vec<_> = ids[..2]
            .iter()
            .map(|&id| {
                let (table, returned) = (table.clone(), returned.clone());
                thread::spawn(move || {
                    assert_eq!(table.get(id).unwrap().result().0, status(1));
                    returned.give(&table, id);
                })
            })
            .collect();
        // Concurrently: starts a freed request or one of a new block.
        let mut alive = vec![records.start(9).unwrap().0];
        records.get(alive[0]).unwrap().total = 9;
        givers.into_iter().for_each(|giver| giver.join().unwrap());
        for _ in 0..2 {
            let id = records.start(9).unwrap().0;
            records.get(id).unwrap().total = 9;
            alive.push(id);
        }
        alive.sort();
        alive.dedup();
        assert_eq!(alive.len(), 3);
        assert!(
            alive.iter().all(|id| !ids[2..].contains(id)),
            "still in use by their owners"
        );
        // None is lost: each request of the pool is live, done or free.
        let made = table.pool.lock().next as usize;
        let mut top = returned.top.load(Ordering::Relaxed);
        let mut waiting = 0;
        while top != NIL {
            waiting += 1;
            top = table
                .get(RequestId(top))
                .unwrap()
                .next_returned
                .load(Ordering::Relaxed);
        }
        assert_eq!(
            made,
            alive.len() + (ids.len() - 2) + records.free.len() + waiting
        );
    });
}

/// A request moves to another VCI while a stale or forged message still names it to the first: the
/// first VCI finds that the request is not its own.
#[test]
fn moved_requests_are_not_accessed_by_their_former_vci() {
    check(|| {
        let table = RequestTable::new();
        let mut one = Records::new(table.clone(), 0);
        let ids: Vec<_> = (0..=CACHE_LIMIT).map(|_| one.start(0).unwrap().0).collect();
        for &id in &ids {
            one.complete(id, Status::EMPTY, None);
            one.free(id);
        }
        let given = table.pool.lock().free.clone();
        assert!(!given.is_empty());
        let stale = RequestId(*given.last().unwrap());
        let (two, hits) = (Records::new(table.clone(), 1), given.len());
        let other = thread::spawn(move || {
            let mut two = two;
            for _ in 0..hits {
                let id = two.start(0).unwrap().0;
                two.get(id).unwrap().total = 5;
            }
        });
        if let Some(record) = one.get(stale) {
            record.total = 6;
            unreachable!("the request is free or another's");
        }
        other.join().unwrap();
    });
}
