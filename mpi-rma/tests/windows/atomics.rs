//! Accumulates of 8-byte integers, with the network's atomics and without.

use super::*;

/// Promises accumulates of 8-byte integers and these operations.
fn promising(ops: &str, bytes: u32) -> Hints {
    Hints {
        accumulates: Some(Promise::parse(ops, Some(bytes)).unwrap()),
        ..Hints::default()
    }
}

const ALL: &str = "sum,band,bor,bxor,replace,no_op,cswap";

/// Makes some accumulates on a target, without a flush between, on few elements. Returns the
/// expected results, and updates the model.
fn change_some(
    process: &Process,
    window: &Window,
    (rank, memory): (u32, &mut [u64]),
    rng: &mut Rng,
    found: &mut [[u64; 2]],
) -> Vec<Vec<u64>> {
    let word = Datatype::predefined(Predefined::Uint64T);
    let apart = word.vector(2, 1, 2).unwrap();
    let ops = [
        PredefinedOp::Sum,
        PredefinedOp::Band,
        PredefinedOp::Bor,
        PredefinedOp::Bxor,
        PredefinedOp::Replace,
        PredefinedOp::NoOp,
    ];
    let mut expected = Vec::new();
    for found in found {
        let first = rng.index(6);
        let mut data = [rng.index(1 << 20) as u64, rng.index(1 << 20) as u64];
        let (datatype, count, places) = match rng.index(3) {
            0 => (&word, 1, vec![first]),
            1 => (&word, 2, vec![first, first + 1]),
            _ => (&apart, 1, vec![first, first + 2]),
        };
        let target = Target {
            rank,
            displacement: first as isize,
            count,
            datatype,
        };
        let buffer = |data: &mut [u64; 2]| Origin {
            base: data.as_mut_ptr().cast(),
            count: places.len(),
            datatype: &word,
        };
        let old: Vec<u64> = places.iter().map(|at| memory[*at]).collect();
        // One in seven is a compare and swap of one word.
        let which = rng.index(ops.len() + 1);
        if which == ops.len() {
            let compare = [old[0], old[0] + 1][rng.index(2)];
            let target = Target {
                count: 1,
                datatype: &word,
                ..target
            };
            // SAFETY: the result lives until the unlock.
            unsafe {
                let (new, result) = (data.as_ptr().cast(), found.as_mut_ptr().cast());
                let compare = (&raw const compare).cast();
                window.compare_and_swap(process, new, compare, result, target)
            }
            .unwrap();
            if compare == old[0] {
                memory[first] = data[0];
            }
            expected.push(vec![old[0]]);
            continue;
        }
        let op = ops[which];
        let fetches = op == PredefinedOp::NoOp || rng.index(2) == 0;
        let result = fetches.then(|| buffer(found));
        let origin = (op != PredefinedOp::NoOp).then(|| buffer(&mut data));
        let completion = [Completion::Blocking, Completion::Request][rng.index(2)];
        let made = Op::predefined(op);
        // SAFETY: the result lives until the unlock; the origin's data is copied before the call
        // returns.
        let id = unsafe { window.accumulate(process, origin, result, target, &made, completion) }
            .unwrap();
        // A request that this loop doesn't wait for completes with the unlock.
        if let Some(id) = id {
            assert_eq!(process.wait(id).unwrap().1, None);
        }
        for (&at, &new) in places.iter().zip(&data) {
            let slot = &mut memory[at];
            *slot = match op {
                PredefinedOp::Sum => slot.wrapping_add(new),
                PredefinedOp::Band => *slot & new,
                PredefinedOp::Bor => *slot | new,
                PredefinedOp::Bxor => *slot ^ new,
                PredefinedOp::Replace => new,
                _ => *slot,
            };
        }
        expected.push(if fetches { old } else { Vec::new() });
    }
    expected
}

/// Runs random accumulates under exclusive locks, then concurrent ones on one word. Returns the
/// number of calls that went by the network's atomics.
fn run_atomics(seed: u64, ranks: u32, rounds: usize, network: SimConfig, other: bool) -> u64 {
    eprintln!("seed {seed}, {network:?}");
    let sim = Simulation::new(seed, network);
    let model: Model = (0..ranks).map(|_| Mutex::new(vec![0; 16])).collect();
    let ready = Barrier::new(ranks as usize);
    let count = Mutex::new(0);
    thread::scope(|scope| {
        for rank in 0..ranks {
            let (sim, model, ready, count) = (&sim, &model, &ready, &count);
            scope.spawn(move || {
                end_all_if_this_fails(seed);
                let process = process(rank, sim.transport(rank), None);
                ready.wait();
                let comm = Comm::new(ContextId::new(0, 1), Group::identity(ranks), rank);
                // A member with another promise disables the promise of all.
                let bytes = if other && rank == 1 { 24 } else { 16 };
                let wishes = promising(ALL, bytes);
                // SAFETY: the window allocates its memory.
                let window =
                    unsafe { Window::new(&process, &comm, Flavor::Allocated, 128, 8, &wishes) };
                let window = window.unwrap();
                assert_eq!(window.promise().is_some(), !other);
                let mut rng = Rng::new(seed * 100 + u64::from(rank));
                for _ in 0..rounds {
                    let target = rng.index(ranks as usize) as u32;
                    let mut found = [[u64::MAX; 2]; 5];
                    window.lock(&process, target, true, false).unwrap();
                    let expected = {
                        let mut memory = model[target as usize].lock().unwrap();
                        let place = (target, &mut memory[..]);
                        change_some(&process, &window, place, &mut rng, &mut found)
                    };
                    window.unlock(&process, target).unwrap();
                    for (found, expected) in found.iter().zip(expected) {
                        assert_eq!(found[..expected.len()], expected);
                    }
                }
                mpi_coll::barrier(&process, &comm).unwrap();
                // All members draw numbers from one word.
                let word = Datatype::predefined(Predefined::Uint64T);
                let (mut one, mut drawn, mut last) = (1u64, [0u64; 4], None);
                window.lock_all(&process, false).unwrap();
                for _ in 0..rounds {
                    for drawn in &mut drawn {
                        let buffer = |word_: &mut u64| Origin {
                            base: (&raw mut *word_).cast(),
                            count: 1,
                            datatype: &word,
                        };
                        let target = Target {
                            rank: 0,
                            displacement: 12,
                            count: 1,
                            datatype: &word,
                        };
                        let (origin, result) = (Some(buffer(&mut one)), Some(buffer(drawn)));
                        let sum = Op::predefined(PredefinedOp::Sum);
                        let completion = Completion::Blocking;
                        // SAFETY: the result lives until the flush.
                        unsafe {
                            window.accumulate(&process, origin, result, target, &sum, completion)
                        }
                        .unwrap();
                    }
                    window.flush(&process, 0).unwrap();
                    for drawn in drawn {
                        assert!(last.is_none_or(|last| drawn > last));
                        last = Some(drawn);
                    }
                }
                window.unlock_all(&process).unwrap();
                mpi_coll::barrier(&process, &comm).unwrap();
                // SAFETY: all members have unlocked; the memory holds this many elements.
                let now =
                    unsafe { std::slice::from_raw_parts(window.base().cast::<u64>(), 16).to_vec() };
                let drawn = if rank == 0 {
                    4 * rounds * ranks as usize
                } else {
                    0
                };
                assert_eq!(now[12], drawn as u64);
                assert_eq!(now[..12], model[rank as usize].lock().unwrap()[..12]);
                window.free(&process).unwrap();
                process.drain().unwrap();
                *count.lock().unwrap() += process.counters(0).unwrap().native_atomics;
                ready.wait();
            });
        }
    });
    assert_eq!(sim.exposed(), 0, "memory is still exposed");
    count.into_inner().unwrap()
}

#[test]
fn by_the_networks_atomics() {
    for seed in seeds() {
        for ordered_put in [false, true] {
            let config = SimConfig {
                again: (seed % 3) as u8 * 10,
                ordered_put,
                put_held: !ordered_put,
                reorder: seed % 2 == 0,
                ..network(Get::Mixed)
            };
            let count = run_atomics(seed, RANKS, 20, config, false);
            assert!(count > 300, "{count} accumulates were native");
        }
    }
}

#[test]
fn without_the_networks_atomics() {
    let seed = seeds()[0];
    let count = run_atomics(seed, RANKS, 10, network(Get::Mixed), true);
    assert_eq!(count, 0, "not all members promised the same");
}

#[test]
fn keys_in_a_large_window_are_fetched_before_atomics() {
    let count = run_atomics(seeds()[0], 66, 2, network(Get::Mixed), false);
    assert!(count > 0);
}

/// Adds 1 to the second rank's first word; returns where the old value will be.
fn add_one(process: &Process, window: &Window) -> mpi_core::Result<&'static mut u64> {
    let word = Datatype::predefined(Predefined::Uint64T);
    let found = Box::leak(Box::new(u64::MAX));
    let mut one = 1u64;
    let buffer = |place: &mut u64| Origin {
        base: (&raw mut *place).cast(),
        count: 1,
        datatype: &word,
    };
    let target = Target {
        rank: 1,
        displacement: 0,
        count: 1,
        datatype: &word,
    };
    let (origin, result) = (Some(buffer(&mut one)), Some(buffer(found)));
    let sum = Op::predefined(PredefinedOp::Sum);
    // SAFETY: the result is leaked, so it stays valid.
    unsafe { window.accumulate(process, origin, result, target, &sum, Completion::Blocking) }?;
    Ok(found)
}

#[test]
fn a_target_that_does_nothing_holds_up_no_atomic() {
    two_with(
        network(Get::Mixed),
        &promising("sum", 8),
        |_, process, window| {
            window.lock_all(process, true).unwrap();
            for before in 0..5 {
                let found = add_one(process, window).unwrap();
                window.flush(process, 1).unwrap();
                assert_eq!(*found, before);
            }
            assert_eq!(process.counters(0).unwrap().native_atomics, 5);
            window.unlock_all(process).unwrap();
        },
    );
}

#[test]
fn a_lost_target_ends_the_flush_of_atomics() {
    two_with(
        network(Get::Mixed),
        &promising("sum", 8),
        |sim, process, window| {
            window.lock_all(process, true).unwrap();
            add_one(process, window).unwrap();
            sim.lose(1, sim.now());
            let flushed = window.flush(process, 1);
            let added = add_one(process, window).and_then(|_| window.flush(process, 1));
            assert_eq!(added.unwrap_err().class(), Class::ProcFailed, "{flushed:?}");
        },
    );
}
