//! Windows in passive mode, over a simulated network: start/complete/post/wait epochs, and attached
//! memory.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use super::passive::{add, long, networks, on_all, word};
use super::*;

/// The other members, for `start` and `post`.
fn others(comm: &Comm) -> Group {
    let ranks: Vec<u32> = (0..comm.size())
        .filter(|rank| *rank != comm.rank())
        .collect();
    comm.local().of_ranks(&ranks)
}

#[test]
fn targets_that_have_posted_need_not_act_until_all_origins_are_done() {
    for seed in seeds() {
        // All post to all; in some runs there are more origins than a member has places for posts.
        let ranks = [2, 5, 40][seed as usize % 3];
        on_all(
            seed,
            networks(seed),
            ranks,
            &|_, process, window, comm, _| {
                let (me, others) = (process.me(), others(comm));
                for round in 0..4 {
                    window.post(process, &others).unwrap();
                    window.start(process, &others).unwrap();
                    let mut values = vec![0i64; ranks as usize];
                    for target in (0..ranks).filter(|target| *target != me) {
                        let value = &mut values[target as usize];
                        *value = i64::from(1000 * round + me);
                        let (base, datatype) = long(value);
                        let origin = Origin {
                            base,
                            count: 1,
                            datatype: &datatype,
                        };
                        let to = Target {
                            rank: target,
                            displacement: 8 * me as isize,
                            count: 1,
                            datatype: &datatype,
                        };
                        // SAFETY: the values live until the epoch is complete.
                        unsafe { window.put(process, origin, to, Completion::Blocking) }.unwrap();
                    }
                    window.complete(process).unwrap();
                    window.wait(process).unwrap();
                    for other in (0..ranks).filter(|other| *other != me) {
                        // SAFETY: all accesses to this exposure are complete.
                        let now = unsafe { window.base().cast::<i64>().add(other as usize).read() };
                        assert_eq!(now, i64::from(1000 * round + other));
                    }
                }
                mpi_coll::barrier(process, comm).unwrap();
            },
        );
    }
}

#[test]
fn start_and_wait_fail_for_a_dead_member() {
    let seed = seeds()[0];
    on_all(seed, networks(seed), 3, &|sim, process, window, comm, _| {
        let of = |rank| comm.local().of_ranks(&[rank]);
        match process.me() {
            0 => {
                let failed = window.start(process, &of(2)).unwrap_err();
                assert_eq!(failed.class(), Class::ProcFailed);
            }
            1 => {
                window.post(process, &of(2)).unwrap();
                let failed = window.wait(process).unwrap_err();
                assert_eq!(failed.class(), Class::ProcFailed);
            }
            _ => {
                thread::sleep(Duration::from_millis(20));
                sim.lose(2, sim.now());
            }
        }
    });
}

/// Windows of attached memory whose members publish their addresses in a table.
#[test]
fn attached_memory_is_found_by_its_address() {
    const RANKS: u32 = 3;
    for seed in seeds() {
        let config = networks(seed);
        eprintln!("seed {seed}, {config:?}");
        let sim = Simulation::new(seed, config);
        let ready = Barrier::new(RANKS as usize);
        let places: Vec<AtomicU64> = (0..RANKS).map(|_| AtomicU64::new(0)).collect();
        let counted = AtomicI64::new(0);
        thread::scope(|scope| {
            for rank in 0..RANKS {
                let (sim, ready, places, counted) = (&sim, &ready, &places, &counted);
                scope.spawn(move || {
                    end_all_if_this_fails(seed);
                    let process = process(rank, sim.transport(rank), None);
                    ready.wait();
                    let comm = Comm::new(ContextId::new(0, 1), Group::identity(RANKS), rank);
                    let hints = Hints::default();
                    // SAFETY: a dynamic window has no memory yet.
                    let window =
                        unsafe { Window::new(&process, &comm, Flavor::Dynamic, 0, 1, &hints) };
                    let window = window.unwrap();
                    assert!(window.is_passive());
                    let meet = || mpi_coll::barrier(&process, &comm).unwrap();
                    let mut rng = Rng::new(seed * 100 + u64::from(rank));
                    let mut memory = vec![0i64; 600];
                    let base = memory.as_mut_ptr().cast::<u8>();
                    // Two ranges without a gap, and now and then more than a page of the table
                    // holds.
                    let mut attached = Vec::new();
                    for round in 0..5i64 {
                        let cut = 8 * (1 + rng.index(20));
                        let mut stretches = vec![(0, cut), (cut, 400 - cut)];
                        if round == 3 {
                            stretches.extend((0..120).map(|one| (400 + 8 * one, 8)));
                        }
                        for (at, len) in stretches {
                            let start = base.wrapping_add(at);
                            // SAFETY: valid until it is detached.
                            unsafe { window.attach(start, len) }.unwrap();
                            attached.push(start);
                        }
                        places[rank as usize]
                            .store(base.expose_provenance() as u64, Ordering::Release);
                        meet();
                        let target = (rank + 1 + rng.below(2) as u32) % RANKS;
                        let place = places[target as usize].load(Ordering::Acquire) as isize;
                        let (one, sum) = ((1i64, Predefined::Int64T), (PredefinedOp::Sum, true));
                        window.lock_all(&process, false).unwrap();
                        let own = place + 8 * (rank as isize + 1);
                        word(&process, &window, (target, own), Some(round));
                        assert_eq!(word(&process, &window, (target, own), None), round);
                        add(&process, &window, (target, place), one, sum).unwrap();
                        // Over both ranges.
                        let mut data = [round; 50];
                        let datatype = Datatype::predefined(Predefined::Int64T);
                        let origin = Origin {
                            base: data.as_mut_ptr().cast(),
                            count: 45,
                            datatype: &datatype,
                        };
                        let to = |at: isize, count| Target {
                            rank: target,
                            displacement: place + at,
                            count,
                            datatype: &datatype,
                        };
                        // SAFETY: the data lives until the flush.
                        unsafe { window.get(&process, origin, to(40, 45), Completion::Blocking) }
                            .unwrap();
                        window.flush(&process, target).unwrap();
                        // SAFETY: the data lives until the flush.
                        let beyond = unsafe {
                            window.put(&process, origin, to(8 * 180, 45), Completion::Blocking)
                        };
                        assert_eq!(beyond.unwrap_err().class(), Class::RmaRange);
                        window.unlock_all(&process).unwrap();
                        meet();
                        for start in attached.drain(..) {
                            window.detach(start).unwrap();
                        }
                    }
                    meet();
                    // Detached memory is not found, though its keys are still known.
                    let target = (rank + 1) % RANKS;
                    let place = places[target as usize].load(Ordering::Acquire) as isize;
                    window.lock_all(&process, false).unwrap();
                    let (one, sum) = ((1i64, Predefined::Int64T), (PredefinedOp::Sum, false));
                    let gone = add(&process, &window, (target, place), one, sum);
                    assert_eq!(gone.unwrap_err().class(), Class::RmaRange);
                    window.unlock_all(&process).unwrap();
                    meet();
                    counted.fetch_add(memory[0], Ordering::Relaxed);
                    window.free(&process).unwrap();
                    process.drain().unwrap();
                    ready.wait();
                });
            }
        });
        assert_eq!(counted.into_inner(), 5 * i64::from(RANKS));
        assert_eq!(sim.exposed(), 0, "memory is still exposed");
    }
}
