//! Collectives over slots that all ranks see, one after the other, with late ranks.

use super::sim::{DEPTH, FIRST, ROOM, run_late, run_telling};
use super::*;
use crate::Reduction;
use crate::team::share;
use crate::{Layout, Part, Slots, slots};
use mpi_types::op::PredefinedOp;

fn seen_by(rank: usize, size: usize) -> Slots {
    Slots {
        rank: rank as u32,
        size: size as u32,
        room: ROOM.max(64 * size),
        depth: DEPTH,
        direct: slots::Direct::Possible,
        is_nonblocking: SEVERAL.get(),
        crowded: false,
    }
}

thread_local! {
    /// Whether collectives are built to be in execution together.
    static SEVERAL: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

fn any_piece(seed: u64) -> Option<usize> {
    [None, Some(1), Some(100), Some(1 << 20)][seed as usize / 6 % 4]
}

fn any_tree(seed: u64) -> slots::Tree {
    let mut rng = Rng::new(seed);
    slots::Tree {
        degree: [1, 2, 3, 4, 8, 100][rng.below(6) as usize],
        piece: any_piece(rng.below(24)),
    }
}

type Build = Box<dyn Fn(usize, &mut Schedule)>;

/// One collective of a sequence: how a rank builds it, and what all buffers are before and after.
struct One {
    what: String,
    build: Build,
    send: Vec<Buffer>,
    recv: Vec<Buffer>,
    expect: Vec<Buffer>,
}

fn bytes(datatype: &Datatype, count: usize) -> usize {
    datatype.size() * count
}

/// A collective of a kind, all else from the generator.
fn one(kind: u64, rng: &mut Rng, size: usize) -> One {
    let all = types();
    let kinds = all.len() as u64;
    let derived = all[rng.below(kinds) as usize].clone();
    let plain = all[rng.below(2) as usize].clone();
    let seed = rng.below(1 << 30);
    let count = [0, 1, 2, 7, 40, 150][rng.below(6) as usize];
    let root = rng.below(size as u64) as usize;
    let in_place = rng.below(2) == 0;
    let commutes = rng.below(2) == 0;
    let op = operation(commutes);
    let datatype = match kind {
        6.. => plain,
        _ => derived,
    };
    let what = format!(
        "kind {kind}, {count} of {datatype:?}, root {root}, in place {in_place}, commutes {commutes}"
    );
    let len = bytes(&datatype, count);
    let contribution = |rank: usize| data(seed, rank as u64, len);
    let one = |rank: usize| Buffer::with(count, &datatype, &contribution(rank));
    let many = |blocks: &dyn Fn(usize) -> Option<Vec<u8>>| {
        let mut buffer = Buffer::of(count * size, &datatype);
        for i in 0..size {
            if let Some(packed) = blocks(i) {
                let at = (i * count) as isize * datatype.extent();
                buffer.put(at, &datatype, &packed);
            }
        }
        buffer
    };
    let none = || vec![Buffer::new(0); size];
    let ranks = 0..size;
    let part = {
        let datatype = datatype.clone();
        move |f: &dyn Fn(Part<'_>)| {
            f(Part {
                count,
                datatype: &datatype,
            });
        }
    };
    // What a rank has: all blocks in place, or its own.
    let (build, send, recv, expect): (Build, Vec<Buffer>, Vec<Buffer>, Vec<Buffer>) = match kind {
        0 => (
            Box::new(move |rank, s| slots::barrier(s, seen_by(rank, size))),
            none(),
            none(),
            none(),
        ),
        1 => {
            let blank = Buffer::of(count, &datatype);
            let recv = ranks
                .map(|rank| match rank == root {
                    true => one(root),
                    false => blank.clone(),
                })
                .collect();
            (
                Box::new(move |rank, s| {
                    let s = std::cell::RefCell::new(s);
                    part(&|part| {
                        let (s, view) = (&mut **s.borrow_mut(), seen_by(rank, size));
                        match seed % 3 {
                            0 => slots::bcast_direct(s, view, root as u32, part),
                            _ => slots::bcast(s, view, root as u32, part),
                        }
                    });
                }),
                none(),
                recv,
                vec![one(root); size],
            )
        }
        2 | 3 => {
            let rooted = kind == 3;
            let gets = |rank: usize| !rooted || rank == root;
            let all = many(&|i| Some(contribution(i)));
            let blank = Buffer::of(count * size, &datatype);
            let recv = ranks
                .clone()
                .map(|rank| match in_place && gets(rank) {
                    true => many(&|i| (i == rank).then(|| contribution(i))),
                    false => blank.clone(),
                })
                .collect();
            let expect = ranks
                .clone()
                .map(|rank| {
                    if gets(rank) {
                        all.clone()
                    } else {
                        blank.clone()
                    }
                })
                .collect();
            (
                Box::new(move |rank, s| {
                    let s = std::cell::RefCell::new(s);
                    part(&|part| {
                        let view = seen_by(rank, size);
                        let own = (!(in_place && (!rooted || rank == root))).then_some(part);
                        let layout = Layout::Uniform(part);
                        let s = &mut **s.borrow_mut();
                        match rooted {
                            false if seed.is_multiple_of(3) => {
                                slots::allgather_direct(s, view, own, part)
                            }
                            false => slots::allgather(s, view, own, layout),
                            true => slots::gather(
                                s,
                                view,
                                root as u32,
                                own,
                                (rank == root).then_some(layout),
                            ),
                        }
                    });
                }),
                ranks.map(one).collect(),
                recv,
                expect,
            )
        }
        4 => {
            let block = |from: usize, to: usize| data(seed, (from * 100 + to) as u64, len);
            let out = |rank: usize| many(&|i| Some(block(rank, i)));
            let expect = ranks
                .clone()
                .map(|rank| many(&|i| Some(block(i, rank))))
                .collect();
            let recv = match in_place {
                true => ranks.clone().map(out).collect(),
                false => vec![Buffer::of(count * size, &datatype); size],
            };
            (
                Box::new(move |rank, s| {
                    let s = std::cell::RefCell::new(s);
                    part(&|part| {
                        let send = (!in_place).then_some(part);
                        let (s, view) = (&mut **s.borrow_mut(), seen_by(rank, size));
                        match send {
                            Some(send) if seed.is_multiple_of(3) => {
                                slots::alltoall_direct(s, view, send, part);
                            }
                            _ => slots::alltoall(s, view, send, part),
                        }
                    });
                }),
                ranks.map(out).collect(),
                recv,
                expect,
            )
        }
        5 => {
            let all = many(&|i| Some(contribution(i)));
            let blank = Buffer::of(count, &datatype);
            let expect = ranks
                .map(|rank| match in_place && rank == root {
                    true => blank.clone(),
                    false => one(rank),
                })
                .collect();
            (
                Box::new(move |rank, s| {
                    let s = std::cell::RefCell::new(s);
                    part(&|part| {
                        let send = (rank == root).then_some(part);
                        let recv = (!(in_place && rank == root)).then_some(part);
                        let view = seen_by(rank, size);
                        slots::scatter(*s.borrow_mut(), view, root as u32, send, recv);
                    });
                }),
                vec![all; size],
                vec![blank; size],
                expect,
            )
        }
        _ => {
            // Reductions; a reduce-scatter's blocks and a scan's vectors fit a slot.
            let count = match kind {
                // Some that take more pieces than there are slots.
                6 | 7 => count * [1, 1, 1, 20][rng.below(4) as usize],
                8 => count.min(ROOM / 8 / size),
                _ => count.min(ROOM / 8),
            };
            let total = if kind == 8 { count * size } else { count };
            let len = bytes(&datatype, total);
            let operands: Vec<_> = (0..size).map(|i| data(seed, i as u64, len)).collect();
            let full =
                |packed: &[u8]| Buffer::with(packed.len() / datatype.size(), &datatype, packed);
            let vectors: Vec<Buffer> = operands.iter().map(|packed| full(packed)).collect();
            let blank = Buffer::of(total, &datatype);
            let result = |from: usize, to: usize| reduced(commutes, operands[from..to].iter());
            let mut recv = vec![blank.clone(); size];
            for rank in 0..size {
                if in_place && (kind != 7 || rank == root) {
                    recv[rank] = vectors[rank].clone();
                }
            }
            let mut expect = recv.clone();
            for (rank, expect) in expect.iter_mut().enumerate() {
                match kind {
                    6 => *expect = full(&result(0, size)),
                    7 if rank == root => *expect = full(&result(0, size)),
                    8 => {
                        let block = bytes(&datatype, count);
                        let whole = result(0, size);
                        expect.put(0, &datatype, &whole[rank * block..(rank + 1) * block]);
                    }
                    9 => *expect = full(&result(0, rank + 1)),
                    10 if rank > 0 => *expect = full(&result(0, rank)),
                    _ => {}
                }
            }
            let datatype = datatype.clone();
            (
                Box::new(move |rank, s| {
                    let (view, part) = (
                        seen_by(rank, size),
                        Part {
                            count,
                            datatype: &datatype,
                        },
                    );
                    match kind {
                        6 if seed.is_multiple_of(2) => {
                            let piece = any_piece(seed);
                            slots::allreduce_direct(
                                s,
                                view,
                                Reduction::new(in_place, part, &op),
                                piece,
                            );
                        }
                        6 => slots::allreduce(s, view, Reduction::new(in_place, part, &op)),
                        7 if seed.is_multiple_of(3) => {
                            slots::reduce_by_tree(
                                s,
                                view,
                                root as u32,
                                Reduction::new(in_place, part, &op),
                                any_tree(seed),
                            );
                        }
                        7 if seed % 3 == 1 => {
                            let piece = any_piece(seed);
                            slots::reduce_direct_by_shares(
                                s,
                                view,
                                root as u32,
                                Reduction::new(in_place, part, &op),
                                piece,
                            );
                        }
                        7 => {
                            slots::reduce(s, view, root as u32, Reduction::new(in_place, part, &op))
                        }
                        8 => slots::reduce_scatter(s, view, in_place, Layout::Uniform(part), &op),
                        9 => slots::scan(s, view, Reduction::new(in_place, part, &op), false),
                        _ => slots::scan(s, view, Reduction::new(in_place, part, &op), true),
                    }
                }),
                vectors,
                recv,
                expect,
            )
        }
    };
    One {
        what,
        build,
        send,
        recv,
        expect,
    }
}

/// Does them one after the other on all ranks, one of which is late, and compares.
fn in_turn(seed: u64, size: usize, late: usize, calls: &mut [One]) {
    let mut runs: Vec<Vec<Run<usize>>> = Vec::new();
    for rank in 0..size {
        let mut number = FIRST;
        let mut list = Vec::new();
        for call in calls.iter_mut() {
            let mut run = Run::new();
            (call.build)(rank, run.rebuild());
            run.set_number(number);
            number = number.wrapping_add(run.schedule().phases().into());
            // SAFETY: the buffers live until the runs are done, below.
            unsafe { run.start(call.send[rank].ptr(), call.recv[rank].ptr(), 0) }.unwrap();
            list.push(run);
        }
        runs.push(list);
    }
    let network = Network::Random(seed);
    let (_, results) = run_late(&mut runs, network, &|_, to| to, &|_| DEPTH, Some(late));
    assert!(results.iter().all(|result| result.is_ok()));
    for (place, call) in calls.iter().enumerate() {
        let what = (place, &call.what, size, late);
        compare(&what, &call.recv, &call.expect);
    }
}

/// Starts all of them, on a ring of slots that is far too short for all, and carries them on in any
/// order.
fn together(seed: u64, size: usize, calls: &mut [One]) {
    let mut runs: Vec<Vec<Run<usize>>> = Vec::new();
    let mut phases = Vec::new();
    for rank in 0..size {
        let mut number = FIRST;
        let mut list = Vec::new();
        phases.clear();
        for (place, call) in calls.iter_mut().enumerate() {
            let mut run = Run::new();
            (call.build)(rank, run.rebuild());
            run.set_number(number);
            phases.push((number, run.schedule().phases()));
            number = number.wrapping_add(run.schedule().phases().into());
            // SAFETY: the buffers live until the runs are done, below.
            let started =
                unsafe { run.start(call.send[rank].ptr(), call.recv[rank].ptr(), place as u32) };
            started.unwrap();
            list.push(run);
        }
        runs.push(list);
    }
    let mut ended = vec![vec![false; calls.len()]; size];
    let mut told = vec![FIRST; size];
    let mut through = |rank: usize, place: usize| {
        ended[rank][place] = true;
        let open = ended[rank].iter().position(|ended| !ended);
        let last = phases[phases.len() - 1];
        let first = open.map_or(last.0.wrapping_add(last.1.into()), |place| phases[place].0);
        let news = first != told[rank];
        told[rank] = first;
        news.then_some(first.wrapping_sub(1))
    };
    let (network, rings) = (
        Network::Random(seed),
        |cell| if cell == 0 { DEPTH } else { 1 },
    );
    let (_, results) = run_telling(&mut runs, network, &|_, to| to, &rings, None, &mut through);
    assert!(results.iter().all(|result| result.is_ok()));
    for (place, call) in calls.iter().enumerate() {
        let what = (place, &call.what, size);
        compare(&what, &call.recv, &call.expect);
    }
}

/// Collectives that have a slot for each of their phases.
fn short(many: usize, rng: &mut Rng, size: usize) -> Vec<One> {
    let mut calls = Vec::new();
    while calls.len() < many {
        let kind = rng.below(11);
        let call = one(kind, rng, size);
        let mut schedule = Schedule::new();
        (call.build)(0, &mut schedule);
        if schedule.phases() <= DEPTH {
            calls.push(call);
        }
    }
    calls
}

#[test]
fn many_under_way_together() {
    let seed = seed();
    SEVERAL.set(true);
    for size in (2..=6).chain([9, 16]) {
        for round in 0..8 {
            let seed = seed + 100 * size as u64 + round;
            let mut rng = Rng::new(seed);
            let mut calls = short(3 + 5 * round as usize, &mut rng, size);
            together(seed, size, &mut calls);
        }
    }
}

#[test]
fn every_collective_again_and_again_in_every_order() {
    let seed = seed();
    for size in (2..=9).chain([16, 17]) {
        let mut rng = Rng::new(seed + size as u64);
        for _ in 0..2 {
            let mut calls: Vec<One> = (0..40)
                .map(|_| {
                    let kind = rng.below(11);
                    one(kind, &mut rng, size)
                })
                .collect();
            let late = rng.below(size as u64) as usize;
            in_turn(seed, size, late, &mut calls);
        }
    }
}

#[test]
fn all_sizes() {
    let seed = seed();
    for size in [1, 31, 32, 33, 64] {
        let mut rng = Rng::new(seed + size as u64);
        let mut calls: Vec<One> = (0..22).map(|i| one(i % 11, &mut rng, size)).collect();
        in_turn(seed, size, size / 2, &mut calls);
    }
}

#[test]
fn reductions_and_alltoalls_of_all_ways() {
    let seed = seed();
    for size in (2..=9).chain([16, 33]) {
        for late in [0, size / 2, size - 1] {
            let mut rng = Rng::new(seed + (100 * size + late) as u64);
            let kinds = [7, 7, 6, 4];
            let call = |i: usize| one(kinds[i % 4], &mut rng, size);
            let mut calls: Vec<One> = (0..60).map(call).collect();
            in_turn(seed, size, late, &mut calls);
        }
    }
}

#[test]
fn long_allreduces_by_shares_while_others_are_late() {
    let seed = seed();
    for size in (2..=6).chain([9, 16]) {
        for late in [0, size / 2, size - 1] {
            let mut rng = Rng::new(seed + (100 * size + late) as u64);
            let mut calls = Vec::new();
            while calls.len() < 12 {
                let call = one(6, &mut rng, size);
                let mut schedule = Schedule::new();
                (call.build)(0, &mut schedule);
                // One that is neither long nor short beside them.
                if schedule.lends() && schedule.phases() > DEPTH || calls.len() % 4 == 3 {
                    calls.push(call);
                }
            }
            in_turn(seed, size, late, &mut calls);
        }
    }
}

#[test]
fn three_hundred_barriers_with_one_late_rank() {
    // Numbers wrap within; nobody may run ahead by more than one.
    let seed = seed();
    for size in [2, 3, 5, 8] {
        let mut rng = Rng::new(seed);
        let mut calls: Vec<One> = (0..300).map(|_| one(0, &mut rng, size)).collect();
        in_turn(seed, size, size - 1, &mut calls);
    }
}

#[test]
fn roots_in_rotation_with_a_late_child() {
    let seed = seed();
    for size in [2, 4, 5, 8] {
        for late in 0..size {
            let mut rng = Rng::new(seed + late as u64);
            let mut calls: Vec<One> = (0..60).map(|_| one(1, &mut rng, size)).collect();
            in_turn(seed, size, late, &mut calls);
        }
    }
}

/// An allreduce, or a reduce to `root`, of sums of floating point numbers, whose bits depend on the
/// order.
fn sums(seed: u64, size: usize, count: usize, in_place: bool, root: Option<usize>) -> One {
    let datatype = Datatype::predefined(Predefined::Float);
    let op = Op::predefined(PredefinedOp::Sum);
    let mut rng = Rng::new(seed);
    let operands: Vec<Vec<f32>> = (0..size)
        .map(|_| {
            let mut number =
                || rng.below(1 << 24) as f32 / 3.0 * [1.0, 1e-5][rng.below(2) as usize];
            (0..count).map(|_| number()).collect()
        })
        .collect();
    let sum = |i: usize| {
        let view = seen_by(0, size);
        let each = view.room / 4;
        let piece = i / each * each;
        let share_of = |rank| share((count - piece).min(each), size, rank);
        // Where each rank makes a share of the result it begins with its own operand.
        let owner = (0..size).find(|rank| share_of(*rank).contains(&(i - piece)));
        let order: Vec<usize> = match owner {
            Some(owner) if size > 2 && !slots::is_small(view, count * 4) => (0..size)
                .map(|distance| (owner + distance) % size)
                .collect(),
            _ => (0..size).rev().collect(),
        };
        let all = order.iter().map(|rank| operands[*rank][i]);
        all.reduce(|sum, next| next + sum).unwrap()
    };
    let packed = |numbers: &[f32]| -> Vec<u8> {
        numbers
            .iter()
            .flat_map(|number| number.to_ne_bytes())
            .collect()
    };
    let buffer = |numbers: &[f32]| Buffer::with(count, &datatype, &packed(numbers));
    let result = buffer(&(0..count).map(sum).collect::<Vec<f32>>());
    let vectors: Vec<Buffer> = operands.iter().map(|numbers| buffer(numbers)).collect();
    let takes = |rank: usize| root.is_none_or(|root| root == rank);
    let recv: Vec<Buffer> = (0..size)
        .map(|rank| match in_place && takes(rank) {
            true => vectors[rank].clone(),
            false => Buffer::of(count, &datatype),
        })
        .collect();
    let expect = (0..size)
        .map(|rank| match takes(rank) {
            true => result.clone(),
            false => recv[rank].clone(),
        })
        .collect();
    let build = move |rank: usize, schedule: &mut Schedule| {
        let part = Part {
            count,
            datatype: &datatype,
        };
        let view = seen_by(rank, size);
        match root.map(|root| root as u32) {
            None => slots::allreduce(schedule, view, Reduction::new(in_place, part, &op)),
            Some(root)
                if seed.is_multiple_of(2)
                    && slots::can_reduce_direct(view, Reduction::new(in_place, part, &op)) =>
            {
                slots::reduce_direct(schedule, view, root, Reduction::new(in_place, part, &op));
            }
            Some(root) => slots::reduce(schedule, view, root, Reduction::new(in_place, part, &op)),
        }
    };
    One {
        what: format!("{count} sums, in place {in_place}, root {root:?}"),
        build: Box::new(build),
        send: vectors,
        recv,
        expect,
    }
}

#[test]
fn a_direct_reduction_goes_by_pieces_beside_others() {
    let seed = seed();
    for late in 0..2 {
        let mut rng = Rng::new(seed + late as u64);
        let mut calls: Vec<One> = (0..40)
            .map(|call| {
                let count = [0, 1, 700, 8 << 10, 20_000][rng.below(5) as usize];
                let root = rng.below(2) as usize;
                let in_place = rng.below(2) == 0;
                match call % 4 {
                    3 => one(rng.below(8), &mut rng, 2),
                    _ => sums(2 * rng.below(1 << 20), 2, count, in_place, Some(root)),
                }
            })
            .collect();
        in_turn(seed, 2, late, &mut calls);
    }
}

#[test]
fn sums_have_the_bits_of_one_order_on_all_ranks() {
    let seed = seed();
    for size in [2, 3, 4, 5, 8] {
        let mut rng = Rng::new(seed + size as u64);
        let mut calls: Vec<One> = (0..40)
            .map(|_| {
                let count = [1, 3, 40, 63, 64, 65, 150, 700][rng.below(8) as usize];
                let root = rng.below(size as u64) as usize;
                let root = (rng.below(2) == 0).then_some(root);
                sums(rng.below(1 << 30), size, count, rng.below(2) == 0, root)
            })
            .collect();
        let late = rng.below(size as u64) as usize;
        in_turn(seed, size, late, &mut calls);
        let mut short: Vec<One> = (0..20)
            .map(|_| {
                let count = [1, 40, 64][rng.below(3) as usize];
                let root = (rng.below(2) == 0).then_some(0);
                sums(rng.below(1 << 30), size, count, rng.below(2) == 0, root)
            })
            .collect();
        SEVERAL.set(true);
        together(seed, size, &mut short);
        SEVERAL.set(false);
    }
}
