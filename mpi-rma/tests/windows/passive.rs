//! Windows in passive mode, over a simulated network.

use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicPtr, AtomicU64, Ordering};
use std::time::Duration;

use super::*;

/// A rank's work on its window.
type Work = dyn Fn(&Simulation, &Process, &Window, &Comm, &mut Rng) + Sync + Send;

/// Runs `work` on one of `ranks`, with a window of some bytes per member; then all `ready` ranks
/// end, unless some failed.
fn run_member(
    (seed, sim): (u64, &Simulation),
    (rank, ranks): (u32, u32),
    (made, ready, lost): (&Barrier, &Barrier, &AtomicBool),
    work: &(dyn Fn(&Simulation, &Process, &Window, &Comm, &mut Rng) + Sync),
) {
    end_all_if_this_fails(seed);
    let process = process(rank, sim.transport(rank), None);
    made.wait();
    let comm = Comm::new(ContextId::new(0, 1), Group::identity(ranks), rank);
    let hints = Hints::default();
    // SAFETY: the window allocates its memory.
    let window = unsafe { Window::new(&process, &comm, Flavor::Allocated, 4096, 1, &hints) };
    let window = window.unwrap();
    assert!(window.is_passive());
    // All members have the window before one fails.
    made.wait();
    let mut rng = Rng::new(seed * 100 + u64::from(rank));
    work(sim, &process, &window, &comm, &mut rng);
    if process.losses() > 0 {
        lost.store(true, Ordering::Relaxed);
    }
    ready.wait();
    if !lost.load(Ordering::Relaxed) {
        window.free(&process).unwrap();
        process.drain().unwrap();
    }
    ready.wait();
}

/// Runs `work` on all ranks.
pub fn on_all(
    seed: u64,
    network: SimConfig,
    ranks: u32,
    work: &(dyn Fn(&Simulation, &Process, &Window, &Comm, &mut Rng) + Sync),
) {
    eprintln!("seed {seed}, {network:?}");
    let sim = Simulation::new(seed, network);
    let (made, ready) = (Barrier::new(ranks as usize), Barrier::new(ranks as usize));
    let lost = AtomicBool::new(false);
    thread::scope(|scope| {
        for rank in 0..ranks {
            let (sim, all) = (&sim, (&made, &ready, &lost));
            scope.spawn(move || run_member((seed, sim), (rank, ranks), all, work));
        }
    });
    if !lost.load(Ordering::Relaxed) {
        assert_eq!(sim.exposed(), 0, "memory is still exposed");
    }
}

/// Runs `work` on all ranks, of which the last fails meanwhile: none waits for it.
fn on_all_but_the_last(seed: u64, network: SimConfig, ranks: u32, work: Arc<Work>) {
    eprintln!("seed {seed}, {network:?}");
    let sim = Arc::new(Simulation::new(seed, network));
    let made = Arc::new(Barrier::new(ranks as usize));
    let ready = Arc::new(Barrier::new(ranks as usize - 1));
    let lost = Arc::new(AtomicBool::new(true));
    let member = |rank| {
        let (sim, work) = (sim.clone(), work.clone());
        let (made, ready, lost) = (made.clone(), ready.clone(), lost.clone());
        thread::spawn(move || {
            run_member((seed, &sim), (rank, ranks), (&made, &ready, &lost), &*work);
        })
    };
    let mut members: Vec<_> = (0..ranks).map(member).collect();
    drop(members.pop());
    members.into_iter().for_each(|one| one.join().unwrap());
}

pub fn networks(seed: u64) -> SimConfig {
    SimConfig {
        again: (seed % 3) as u8 * 10,
        ordered_put: seed.is_multiple_of(2),
        // Some elements are short enough, and some are not.
        ordered_access: [0, 4, 4096][seed as usize / 2 % 3],
        put_held: seed % 2 == 1,
        put_delayed: (seed % 4) as u8 * 20,
        reorder: seed % 2 == 1,
        ..network([Get::Mixed, Get::Immediate, Get::Delayed][seed as usize % 3])
    }
}

pub fn long(place: &mut i64) -> (*mut u8, Datatype) {
    let datatype = Datatype::predefined(Predefined::Int64T);
    ((&raw mut *place).cast(), datatype)
}

/// Reads or writes a word of a target.
pub fn word(
    process: &Process,
    window: &Window,
    (rank, at): (u32, isize),
    value: Option<i64>,
) -> i64 {
    let mut word = value.unwrap_or(-1);
    let (base, datatype) = long(&mut word);
    let origin = Origin {
        base,
        count: 1,
        datatype: &datatype,
    };
    let target = Target {
        rank,
        displacement: at,
        count: 1,
        datatype: &datatype,
    };
    // SAFETY: the word lives until the flush.
    unsafe {
        match value {
            Some(_) => window.put(process, origin, target, Completion::Blocking),
            None => window.get(process, origin, target, Completion::Blocking),
        }
    }
    .and_then(|_| window.flush(process, rank))
    .unwrap();
    word
}

/// Accumulates an element of some type. Returns the old value, if wanted.
pub fn add<T: Copy + Default>(
    process: &Process,
    window: &Window,
    (rank, at): (u32, isize),
    what: (T, Predefined),
    how: (PredefinedOp, bool),
) -> mpi_core::Result<T> {
    let found = accumulate(process, window, (rank, at), what, how)?;
    window.flush(process, rank)?;
    Ok(found)
}

/// Accumulates an element without a flush.
pub fn accumulate<T: Copy + Default>(
    process: &Process,
    window: &Window,
    (rank, at): (u32, isize),
    (mut value, kind): (T, Predefined),
    (op, fetch): (PredefinedOp, bool),
) -> mpi_core::Result<T> {
    let datatype = Datatype::predefined(kind);
    let mut found = T::default();
    let buffer = |place: *mut T| Origin {
        base: place.cast(),
        count: 1,
        datatype: &datatype,
    };
    let target = Target {
        rank,
        displacement: at,
        count: 1,
        datatype: &datatype,
    };
    let (origin, result) = (Some(buffer(&mut value)), fetch.then(|| buffer(&mut found)));
    let op = Op::predefined(op);
    // SAFETY: the windows of these tests are passive, and don't use the buffers after the call.
    unsafe { window.accumulate(process, origin, result, target, &op, Completion::Blocking)? };
    Ok(found)
}

pub fn swap(
    process: &Process,
    window: &Window,
    (rank, at): (u32, isize),
    [compare, new]: [i32; 2],
) -> i32 {
    let datatype = Datatype::predefined(Predefined::Int32T);
    let mut found = -1i32;
    let target = Target {
        rank,
        displacement: at,
        count: 1,
        datatype: &datatype,
    };
    let (new, compare) = ((&raw const new).cast(), (&raw const compare).cast());
    let result = (&raw mut found).cast();
    // SAFETY: the result lives until the flush.
    unsafe { window.compare_and_swap(process, new, compare, result, target) }.unwrap();
    window.flush(process, rank).unwrap();
    found
}

/// Makes every kind of access to a target. Returns the simulated time that it took.
fn all_deeds(sim: &Simulation, process: &Process, window: &Window, round: i64) -> u64 {
    let began = sim.now();
    window.lock(process, 1, true, false).unwrap();
    assert_eq!(word(process, window, (1, 0), None), round);
    word(process, window, (1, 0), Some(round + 1));
    let (sum, fetch) = (PredefinedOp::Sum, true);
    let half = (0.5f64, Predefined::Double);
    let found = add(process, window, (1, 8), half, (sum, fetch)).unwrap();
    assert_eq!(found, round as f64);
    window.unlock(process, 1).unwrap();
    window.lock(process, 1, false, false).unwrap();
    add(process, window, (1, 8), half, (sum, false)).unwrap();
    let found = swap(process, window, (1, 20), [round as i32, round as i32 + 1]);
    assert_eq!(found, round as i32);
    window.unlock(process, 1).unwrap();
    window.lock_all(process, false).unwrap();
    let byte = (3u8, Predefined::Uint8T);
    let found = add(process, window, (1, 27), byte, (PredefinedOp::Bxor, true)).unwrap();
    assert_eq!(found, if round % 2 == 0 { 0 } else { 3 });
    window.unlock_all(process).unwrap();
    sim.now() - began
}

#[test]
fn a_computing_target_delays_no_origin() {
    for seed in seeds().into_iter().take(2) {
        let config = networks(seed);
        let times = Mutex::new(Vec::new());
        let (computes, done) = (AtomicU64::new(0), AtomicU64::new(0));
        on_all(seed, config, 2, &|sim, process, window, comm, _| {
            for (round, time) in [0, 1_000_000, 100_000_000, 1_000_000_000]
                .into_iter()
                .enumerate()
            {
                mpi_coll::barrier(process, comm).unwrap();
                if process.me() == 1 {
                    // The target computes without calls of the library, at least as long as the
                    // origin needs.
                    computes.store(round as u64 + 1, Ordering::Release);
                    while done.load(Ordering::Acquire) != round as u64 + 1 {
                        thread::sleep(Duration::from_micros(50));
                    }
                } else {
                    while computes.load(Ordering::Acquire) != round as u64 + 1 {
                        std::hint::spin_loop();
                    }
                    let began = sim.now();
                    let took = all_deeds(sim, process, window, round as i64);
                    times.lock().unwrap().push((time, took));
                    // The rest of the target's computation.
                    sim.run_until(began + time);
                    done.store(round as u64 + 1, Ordering::Release);
                }
            }
        });
        let times = times.into_inner().unwrap();
        println!("the target computes, ns: the origin takes, ns: {times:?}");
        let least = times.iter().map(|time| time.1).min().unwrap();
        // Chance (jitter, refusals) makes a difference, the target none.
        assert!(times.iter().all(|time| time.1 < 3 * least), "{times:?}");
        assert!(times.iter().all(|time| time.1 < 2_000_000), "{times:?}");
    }
}

#[test]
fn locks_exclude_and_what_is_counted_under_them_adds_up() {
    const RANKS: u32 = 4;
    for seed in seeds().into_iter().take(3) {
        // Holders by target: a reader adds 1, a writer a million.
        let inside: Vec<AtomicI64> = (0..RANKS).map(|_| AtomicI64::new(0)).collect();
        let counted: Vec<AtomicI64> = (0..RANKS).map(|_| AtomicI64::new(0)).collect();
        on_all(
            seed,
            networks(seed),
            RANKS,
            &|_, process, window, comm, rng| {
                let enter = |target: u32, what: i64| {
                    let before = inside[target as usize].fetch_add(what, Ordering::SeqCst);
                    let fits = if what == 1 {
                        before < 1_000_000
                    } else {
                        before == 0
                    };
                    assert!(fits, "two are inside: {before} and {what} at {target}");
                };
                let leave = |target: u32, what: i64| {
                    inside[target as usize].fetch_sub(what, Ordering::SeqCst);
                };
                let sum = (PredefinedOp::Sum, false);
                for _ in 0..12 {
                    let target = rng.index(RANKS as usize) as u32;
                    match rng.index(4) {
                        0 => {
                            window.lock_all(process, false).unwrap();
                            (0..RANKS).for_each(|target| enter(target, 1));
                            for target in 0..RANKS {
                                let one = (1i64, Predefined::Int64T);
                                add(process, window, (target, 8), one, sum).unwrap();
                                counted[target as usize].fetch_add(1, Ordering::Relaxed);
                            }
                            (0..RANKS).for_each(|target| leave(target, 1));
                            window.unlock_all(process).unwrap();
                        }
                        1 => {
                            window.lock(process, target, false, false).unwrap();
                            enter(target, 1);
                            let one = (1i64, Predefined::Int64T);
                            add(process, window, (target, 8), one, sum).unwrap();
                            counted[target as usize].fetch_add(1, Ordering::Relaxed);
                            leave(target, 1);
                            window.unlock(process, target).unwrap();
                        }
                        2 => {
                            // Two at a time, in the order of ranks.
                            let other = rng.index(RANKS as usize) as u32;
                            let both = [target.min(other), target.max(other)];
                            let both = if target == other {
                                &both[..1]
                            } else {
                                &both[..]
                            };
                            for target in both {
                                window.lock(process, *target, true, false).unwrap();
                                enter(*target, 1_000_000);
                            }
                            for target in both {
                                let now = word(process, window, (*target, 8), None);
                                word(process, window, (*target, 8), Some(now + 1));
                                counted[*target as usize].fetch_add(1, Ordering::Relaxed);
                                leave(*target, 1_000_000);
                                window.unlock(process, *target).unwrap();
                            }
                        }
                        _ => {
                            window.lock(process, target, true, false).unwrap();
                            enter(target, 1_000_000);
                            let now = word(process, window, (target, 8), None);
                            word(process, window, (target, 8), Some(now + 1));
                            counted[target as usize].fetch_add(1, Ordering::Relaxed);
                            leave(target, 1_000_000);
                            window.unlock(process, target).unwrap();
                        }
                    }
                }
                mpi_coll::barrier(process, comm).unwrap();
                let me = process.me();
                window.lock(process, me, false, false).unwrap();
                let found = word(process, window, (me, 8), None);
                assert_eq!(found, counted[me as usize].load(Ordering::Relaxed));
                window.unlock(process, me).unwrap();
            },
        );
    }
}

/// Locks, at the second attempt at the latest.
fn lock_with_retry(process: &Process, window: &Window, target: Option<u32>, exclusive: bool) {
    let lock = || match target {
        Some(target) => window.lock(process, target, exclusive, false),
        None => window.lock_all(process, false),
    };
    if let Err(error) = lock() {
        assert_eq!(error.class(), Class::ProcFailed, "{error}");
        lock().unwrap();
    }
}

/// Checks that locks and accesses between ranks 0 and 1 work after 2 has failed.
fn all_works(process: &Process, window: &Window) {
    let one = (1i64, Predefined::Int64T);
    let sum = (PredefinedOp::Sum, false);
    for target in 0..2 {
        for exclusive in [true, false] {
            lock_with_retry(process, window, Some(target), exclusive);
            add(process, window, (target, 64), one, sum).unwrap();
            window.unlock(process, target).unwrap();
        }
    }
    lock_with_retry(process, window, None, false);
    add(process, window, (1 - process.me(), 64), one, sum).unwrap();
    window.unlock_all(process).unwrap();
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Held {
    Exclusive,
    Shared,
    All,
    Nothing,
}

#[test]
fn a_dead_holder_fails_the_waiters_and_frees_the_lock() {
    for held in [Held::Exclusive, Held::Shared, Held::All, Held::Nothing] {
        for wanted in [Held::Exclusive, Held::All, Held::Shared] {
            let seed = seeds()[0];
            eprintln!("held {held:?}, wanted {wanted:?}");
            let stage = Barrier::new(3);
            let others = [const { AtomicPtr::new(ptr::null_mut()) }; 2];
            let returned = [const { AtomicBool::new(false) }; 2];
            // A process whose wait is on record by now has read the count of failures before this
            // one.
            let is_decided = |rank: usize| {
                // SAFETY: it lives until all ranks have met at the end of this test; a rank that
                // fails before ends the program.
                let process: &Process = unsafe { &*others[rank].load(Ordering::Acquire) };
                returned[rank].load(Ordering::Acquire) || !process.awaited().is_empty()
            };
            on_all(seed, networks(seed), 3, &|sim, process, window, _, _| {
                if process.me() == 2 {
                    match held {
                        Held::Exclusive => window.lock(process, 0, true, false).unwrap(),
                        Held::Shared => window.lock(process, 0, false, false).unwrap(),
                        Held::All => window.lock_all(process, false).unwrap(),
                        Held::Nothing => {}
                    }
                    stage.wait();
                    // A later process finds the lock free.
                    while !(0..2).all(is_decided) {
                        thread::sleep(Duration::from_millis(1));
                    }
                    sim.lose(2, sim.now());
                    return;
                }
                let me = process.me() as usize;
                others[me].store(ptr::from_ref(process).cast_mut(), Ordering::Release);
                stage.wait();
                let locked = match wanted {
                    Held::Exclusive => window.lock(process, 0, true, false),
                    Held::Shared => window.lock(process, 0, false, false),
                    _ => window.lock_all(process, false),
                };
                returned[me].store(true, Ordering::Release);
                let excluded =
                    held == Held::Exclusive || wanted == Held::Exclusive && held != Held::Nothing;
                match locked {
                    Err(error) => {
                        assert!(excluded, "{error}");
                        assert_eq!(error.class(), Class::ProcFailed, "{error}");
                    }
                    Ok(()) => {
                        assert!(!excluded);
                        match wanted {
                            Held::All => window.unlock_all(process).unwrap(),
                            _ => window.unlock(process, 0).unwrap(),
                        }
                    }
                }
                // The other rank learns of the failure too, before everything is tried.
                while process.losses() == 0 {
                    process.poll(0).unwrap();
                    process.check_awaited_peers();
                    if window.lock(process, 2, false, false).is_ok() {
                        let _ = window.unlock(process, 2);
                    }
                }
                all_works(process, window);
            });
        }
    }
}

#[test]
fn a_member_dies_at_some_moment_and_the_others_go_on() {
    for seed in seeds() {
        let dies = Rng::new(seed).below(3_000_000);
        let work =
            move |sim: &Simulation, process: &Process, window: &Window, _: &Comm, rng: &mut Rng| {
                if process.me() == 0 {
                    sim.lose(2, sim.now() + dies);
                }
                let (one, sum) = ((1i64, Predefined::Int64T), (PredefinedOp::Sum, false));
                let began = std::time::Instant::now();
                while began.elapsed() < Duration::from_millis(150) {
                    let target = rng.index(2) as u32;
                    let all = rng.index(3) == 0;
                    let locked = match all {
                        true => window.lock_all(process, false),
                        false => window.lock(process, target, rng.index(2) == 0, false),
                    };
                    if let Err(error) = locked {
                        assert_eq!(error.class(), Class::ProcFailed, "{error}");
                        continue;
                    }
                    let added = add(process, window, (target, 64), one, sum);
                    let unlocked = match all {
                        true => window.unlock_all(process),
                        false => window.unlock(process, target),
                    };
                    if process.me() != 2 {
                        added.unwrap();
                        unlocked.unwrap();
                    }
                }
                if process.me() == 2 {
                    thread::sleep(Duration::from_secs(3600));
                }
                while process.losses() == 0 {
                    process.poll(0).unwrap();
                    if window.lock(process, 2, false, false).is_ok() {
                        let _ = window.unlock(process, 2);
                    }
                }
                all_works(process, window);
            };
        on_all_but_the_last(seed, networks(seed), 3, Arc::new(work));
    }
}

#[test]
fn many_members_count_each_other() {
    // More members than a word has bits for; all keys are known, or some.
    for ranks in [23, 66] {
        let seed = seeds()[0];
        on_all(
            seed,
            network(Get::Mixed),
            ranks,
            &|_, process, window, comm, _| {
                if process.me() < 6 {
                    let (one, sum) = ((1i64, Predefined::Int64T), (PredefinedOp::Sum, false));
                    for round in 0..3 {
                        let target = (process.me() + round) % 3 * (ranks / 3);
                        window.lock(process, target, true, false).unwrap();
                        let now = word(process, window, (target, 8), None);
                        word(process, window, (target, 8), Some(now + 1));
                        window.unlock(process, target).unwrap();
                        window.lock_all(process, false).unwrap();
                        add(process, window, (target, 8), one, sum).unwrap();
                        window.unlock_all(process).unwrap();
                    }
                }
                mpi_coll::barrier(process, comm).unwrap();
                // SAFETY: no rank changes it any more.
                let now = unsafe { window.base().add(8).cast::<i64>().read() };
                let third = ranks / 3;
                let is_target = process.me() % third == 0 && process.me() / third < 3;
                assert_eq!(now, if is_target { 12 } else { 0 });
                mpi_coll::barrier(process, comm).unwrap();
            },
        );
    }
}
