//! Accumulates in windows in passive mode, over a simulated network.

use std::sync::atomic::{AtomicI64, Ordering};

use super::passive::{accumulate, add, networks, on_all, swap, word};
use super::*;

#[test]
fn accumulates_of_all_kinds_of_elements_are_atomic() {
    const RANKS: u32 = 3;
    for seed in seeds().into_iter().take(5) {
        on_all(
            seed,
            networks(seed),
            RANKS,
            &|_, process, window, comm, _| {
                window.lock_all(process, false).unwrap();
                let sum = PredefinedOp::Sum;
                let mut last = -1.0;
                for round in 0..10 {
                    // All ranks access the same elements, their own included.
                    let target = (process.me() + round) % RANKS;
                    add(
                        process,
                        window,
                        (target, 0),
                        (1u8, Predefined::Uint8T),
                        (sum, false),
                    )
                    .unwrap();
                    add(
                        process,
                        window,
                        (target, 3),
                        (1i16, Predefined::Int16T),
                        (sum, false),
                    )
                    .unwrap();
                    let drawn = add(
                        process,
                        window,
                        (0, 8),
                        (1f32, Predefined::Float),
                        (sum, true),
                    );
                    assert!(last < *drawn.as_ref().unwrap());
                    last = drawn.unwrap();
                    let most = (process.me() as i64, Predefined::Int64T);
                    add(
                        process,
                        window,
                        (target, 16),
                        most,
                        (PredefinedOp::Max, false),
                    )
                    .unwrap();
                    // A counter by compare and swap.
                    let mut seen = 0;
                    loop {
                        match swap(process, window, (1, 32), [seen, seen + 1]) {
                            found if found == seen => break,
                            found => seen = found,
                        }
                    }
                }
                window.unlock_all(process).unwrap();
                mpi_coll::barrier(process, comm).unwrap();
                // SAFETY: no rank changes it any more.
                let now = unsafe { std::slice::from_raw_parts(window.base(), 40).to_vec() };
                assert_eq!((now[0], &now[3..5]), (10, &[10, 0][..]));
                assert_eq!(now[16], 2);
                if process.me() == 0 {
                    let drawn = f32::from_ne_bytes(now[8..12].try_into().unwrap());
                    assert_eq!(drawn, 30.0);
                }
                if process.me() == 1 {
                    assert_eq!(now[32], 30);
                }
                mpi_coll::barrier(process, comm).unwrap();
            },
        );
    }
}

#[test]
fn counters_lose_nothing_and_give_every_value_once() {
    const RANKS: u32 = 4;
    const TIMES: u32 = 60;
    for seed in seeds() {
        let network = networks(seed);
        let (drawn, counted) = (Mutex::new(Vec::new()), AtomicI64::new(0));
        on_all(seed, network, RANKS, &|_, process, window, comm, rng| {
            window.lock_all(process, false).unwrap();
            let (one, sum) = ((1f64, Predefined::Double), PredefinedOp::Sum);
            for _ in 0..TIMES {
                let found = accumulate(process, window, (0, 8), one, (sum, true)).unwrap();
                drawn.lock().unwrap().push(found as u32);
                // With members that take no part.
                for _ in 0..rng.index(5) {
                    counted.fetch_add(1, Ordering::Relaxed);
                    accumulate(process, window, (0, 24), one, (sum, false)).unwrap();
                }
            }
            window.unlock_all(process).unwrap();
            mpi_coll::barrier(process, comm).unwrap();
            window.lock(process, 0, false, false).unwrap();
            let bits = [(0, 8), (0, 24)].map(|at| word(process, window, at, None) as u64);
            assert_eq!(f64::from_bits(bits[0]), f64::from(RANKS * TIMES));
            assert_eq!(
                f64::from_bits(bits[1]),
                counted.load(Ordering::Relaxed) as f64
            );
            window.unlock(process, 0).unwrap();
        });
        let mut drawn = drawn.into_inner().unwrap();
        drawn.sort_unstable();
        assert!(drawn.into_iter().eq(0..RANKS * TIMES), "seed {seed}");
    }
}

#[test]
fn accumulates_of_an_origin_are_carried_out_in_its_order() {
    const RANKS: u32 = 3;
    for seed in seeds() {
        on_all(
            seed,
            networks(seed),
            RANKS,
            &|_, process, window, comm, rng| {
                // Elements of this origin's own, at all targets; a round's accumulates may overlap.
                let first = 64 + 32 * process.me() as isize;
                let mut model = [[0u8; 32]; RANKS as usize];
                window.lock_all(process, false).unwrap();
                for round in 0..150 {
                    let target = rng.index(RANKS as usize) as u32;
                    let of_target = &mut model[target as usize];
                    let (op, make): (_, fn(i64, i64) -> i64) = match rng.index(3) {
                        0 => (PredefinedOp::Sum, i64::wrapping_add),
                        1 => (PredefinedOp::Replace, |_, new| new),
                        _ => (PredefinedOp::Bxor, |old, new| old ^ new),
                    };
                    let (fetch, value) = (rng.index(5) == 0, 7 * round + 3);
                    // Elements of 8 and of 2 bytes share addresses.
                    let (at, width) = match rng.index(2) {
                        0 => (8 * rng.index(4), 8),
                        _ => (2 * rng.index(16), 2),
                    };
                    let room = &mut of_target[at..at + width];
                    let mut old = [0; 8];
                    old[..width].copy_from_slice(room);
                    let old = i64::from_le_bytes(old);
                    room.copy_from_slice(&make(old, value).to_le_bytes()[..width]);
                    let place = (target, first + at as isize);
                    let found = match width {
                        8 => {
                            let value = (value, Predefined::Int64T);
                            accumulate(process, window, place, value, (op, fetch)).unwrap()
                        }
                        _ => {
                            let value = (value as u16, Predefined::Uint16T);
                            i64::from(
                                accumulate(process, window, place, value, (op, fetch)).unwrap(),
                            )
                        }
                    };
                    assert!(!fetch || found == old, "round {round}: {found} for {old}");
                    match rng.index(20) {
                        0 => window.flush(process, target).unwrap(),
                        1 => window.flush_all(process).unwrap(),
                        2 => window.flush_local_all(process).unwrap(),
                        _ => {}
                    }
                }
                window.unlock_all(process).unwrap();
                mpi_coll::barrier(process, comm).unwrap();
                for (target, model) in (0..).zip(&model) {
                    window.lock(process, target, false, false).unwrap();
                    for at in (0..32).step_by(8) {
                        let found = word(process, window, (target, first + at as isize), None);
                        assert_eq!(found.to_le_bytes(), model[at..at + 8], "{target}, {at}");
                    }
                    window.unlock(process, target).unwrap();
                }
            },
        );
    }
}

#[test]
fn an_accumulate_is_one_trip_where_the_network_keeps_order() {
    const TRIP: u64 = 100_000;
    for (ordered_access, trips) in [(0, 3), (64, 1)] {
        let config = SimConfig {
            latency: Latency {
                base: TRIP / 2,
                per_byte: 0,
                jitter: 0,
            },
            get: Get::Delayed,
            ordered_access,
            poll_steps: true,
            ..SimConfig::default()
        };
        let times = Mutex::new(Vec::new());
        on_all(1, config, 2, &|sim, process, window, comm, _| {
            if process.me() == 0 {
                window.lock_all(process, false).unwrap();
                for _ in 0..20 {
                    let (half, sum) = ((0.5f64, Predefined::Double), PredefinedOp::Sum);
                    let began = sim.now();
                    accumulate(process, window, (1, 8), half, (sum, true)).unwrap();
                    times.lock().unwrap().push(sim.now() - began);
                    window.flush(process, 1).unwrap();
                }
                window.unlock_all(process).unwrap();
            }
            mpi_coll::barrier(process, comm).unwrap();
        });
        // The other rank's thread may advance the clock too: some take longer.
        let times = times.into_inner().unwrap();
        let least = *times.iter().min().unwrap();
        assert!(
            (trips * TRIP..(trips + 1) * TRIP).contains(&least),
            "{times:?}"
        );
    }
}

#[test]
fn under_an_exclusive_lock_long_accumulates_see_short_ones_before_them() {
    const COUNT: usize = 100;
    let config = SimConfig {
        get: Get::Immediate,
        ordered_access: 64,
        poll_steps: true,
        ..SimConfig::default()
    };
    on_all(1, config, 2, &|_, process, window, comm, _| {
        if process.me() == 0 {
            let sum = Op::predefined(PredefinedOp::Sum);
            let datatype = Datatype::predefined(Predefined::Int64T);
            let (mut ones, mut found) = ([1i64; COUNT], [0i64; COUNT]);
            window.lock(process, 1, true, false).unwrap();
            for round in 0..20 {
                let one = (1i64, Predefined::Int64T);
                accumulate(process, window, (1, 8), one, (PredefinedOp::Sum, true)).unwrap();
                let buffer = |place: *mut i64| Origin {
                    base: place.cast(),
                    count: COUNT,
                    datatype: &datatype,
                };
                let target = Target {
                    rank: 1,
                    displacement: 0,
                    count: COUNT,
                    datatype: &datatype,
                };
                let (origin, result) = (buffer(ones.as_mut_ptr()), buffer(found.as_mut_ptr()));
                // SAFETY: both live until the call returns, after which a passive window doesn't
                // use them.
                unsafe {
                    let (origin, result) = (Some(origin), Some(result));
                    let completion = Completion::Blocking;
                    window
                        .accumulate(process, origin, result, target, &sum, completion)
                        .unwrap();
                }
                assert_eq!(found[..3], [round, 2 * round + 1, round]);
            }
            window.unlock(process, 1).unwrap();
        }
        mpi_coll::barrier(process, comm).unwrap();
    });
}
