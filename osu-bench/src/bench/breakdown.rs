//! `breakdown`, `breakdown_mt`: where the time of messages and puts goes, layer by layer, and the models
//! of chapter 2 of R. Zambre's thesis "Exascalable Communication for Modern Supercomputing" made of it:
//! injection overhead (equations 2.2 to 2.6), latency (2.7 and 2.8) and what a cheaper layer would gain.
//!
//! The library counts by time stamps at the borders of its layers if it is built with the feature
//! `breakdown`. Calls are counted while nothing else happens: sends while the receiver pauses, waits
//! when the messages have arrived. The calls of a single message are those of a ping-pong in which one
//! rank pauses. What is predicted from these times is measured without stamps.

use std::env;
use std::thread;
use std::time::{Duration, Instant};

use super::pairs::{Lane, Role, run_lanes};
use super::pt2pt::{BANDWIDTH, DATA, two_ranks};
use super::timing::Bench;
use crate::compare::{fetch, round_trip, tcp_half_round_trip};
use crate::error::Result;
use crate::mpi::{Combine, Request, Totals, Window, World};
use crate::options::Options;
use crate::stats::{Summary, medians};
use crate::together;

/// The parts, in the order of the library.
const PARTS: [&str; 6] = ["program", "entry", "core", "progress", "lane", "system"];
/// Nanoseconds of each part.
type Times = Vec<f64>;

/// Bytes of a message.
const SIZE: usize = 8;
/// Rounds that are counted, after a tenth as many that are not.
const ROUNDS: usize = 400;
/// Time for messages to arrive while their receiver does nothing.
const PAUSE: Duration = Duration::from_micros(200);
/// Time that the other rank leaves the cores to the measurement of the wire.
const ASIDE: Duration = Duration::from_millis(600);
/// Bytes of a message with its header, on a bare socket.
const FRAME: usize = 40;

/// The library's counter.
struct Counter<'a> {
    world: &'a World,
    /// Ticks of a stamp.
    stamp: f64,
    /// Nanoseconds of a tick.
    tick: f64,
}

impl<'a> Counter<'a> {
    /// Measures the cost of a stamp by spans without anything in them.
    fn new(world: &'a World) -> Result<Self> {
        const SPANS: i32 = 2000;
        let (start, mut all, mut least) = (Instant::now(), 0, u64::MAX);
        // The least of many: a thread that loses its core between two stamps shows nothing.
        for _ in 0..200 {
            world.breakdown(0, None)?;
            let mut totals = Totals::default();
            world.breakdown(SPANS, Some(&mut totals))?;
            let ticks = totals[..PARTS.len()].iter().sum();
            (all, least) = (all + ticks, least.min(ticks));
        }
        let took = start.elapsed().as_nanos() as f64;
        Ok(Self {
            world,
            stamp: least as f64 / f64::from(2 * SPANS),
            tick: took / all as f64,
        })
    }

    /// Runs `work` and returns the nanoseconds of each part, divided by `operations`.
    fn time(&self, operations: usize, work: impl FnOnce() -> Result<()>) -> Result<Times> {
        self.world.breakdown(0, None)?;
        let outcome = work();
        let mut totals = Totals::default();
        self.world.breakdown(0, Some(&mut totals))?;
        let (ticks, stamps) = totals.split_at(PARTS.len());
        let net = |part: usize| ticks[part] as f64 - stamps[part] as f64 * self.stamp;
        let each = self.tick / operations as f64;
        outcome.map(|()| (0..PARTS.len()).map(|part| net(part) * each).collect())
    }
}

/// Returns the time within the library.
fn within(times: &[f64]) -> f64 {
    times[1..].iter().sum()
}

/// Adds two calls, part by part.
fn plus(one: &[f64], two: &[f64]) -> Times {
    one.iter().zip(two).map(|(one, two)| one + two).collect()
}

/// Makes no progress for a while.
fn pause(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        std::hint::spin_loop();
    }
}

/// The calls of a window of messages, each by layer.
struct Calls {
    isend: Times,
    wait_send: Times,
    irecv: Times,
    wait_receive: Times,
}

/// Counts the calls that send and receive `window` messages.
fn calls(counter: &Counter<'_>, window: usize) -> Result<Calls> {
    let world = counter.world;
    let (data, mut space) = ([1_u8; SIZE], vec![[0_u8; SIZE]; window]);
    let mut requests: Vec<Request> = Vec::with_capacity(window);
    let (mut starts, mut waits) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS + ROUNDS / 10 {
        world.barrier()?;
        requests.clear();
        let start = if world.rank == 0 {
            // The receives are posted.
            world.barrier()?;
            counter.time(window, || {
                (0..window).try_for_each(|_| {
                    // SAFETY: the data outlives the requests, which are waited for below.
                    requests.push(unsafe { world.isend(data.as_ptr(), SIZE, 1, DATA) }?);
                    Ok(())
                })
            })?
        } else {
            let start = counter.time(window, || {
                space.iter_mut().try_for_each(|place| {
                    // SAFETY: the space outlives the requests, which are waited for below.
                    requests.push(unsafe { world.irecv(place.as_mut_ptr(), SIZE, 0, DATA) }?);
                    Ok(())
                })
            })?;
            world.barrier()?;
            pause(PAUSE);
            start
        };
        starts.push(start);
        waits.push(counter.time(window, || {
            requests.iter_mut().try_for_each(|one| world.wait(one))
        })?);
    }
    let [start, wait] = [starts, waits].map(|all| medians(&all[ROUNDS / 10..]));
    of_both(world, [&start, &wait], [&start, &wait])
}

/// Counts the calls of a ping-pong in which rank 1 pauses for `time` before it waits: two round trips, which
/// is long enough for a message and short enough for the caches to stay warm.
fn turns(counter: &Counter<'_>, time: Duration) -> Result<Calls> {
    let world = counter.world;
    let peer = 1 - world.rank;
    let (data, mut space) = ([1_u8; SIZE], [0_u8; SIZE]);
    let mut times: [Vec<Times>; 4] = Default::default();
    world.barrier()?;
    for _ in 0..ROUNDS + ROUNDS / 10 {
        let (mut sent, mut expected): (Request, Request) = (0, 0);
        let start = counter.time(1, || {
            // SAFETY: the space is not read, and the request is waited for below.
            expected = unsafe { world.irecv(space.as_mut_ptr(), SIZE, peer, DATA) }?;
            Ok(())
        })?;
        let mut receive = || {
            // The other rank's answer to the message before has arrived after the pause.
            pause(time * world.rank as u32);
            counter.time(1, || world.wait(&mut expected))
        };
        let early = (world.rank == 1).then(&mut receive).transpose()?;
        let send = counter.time(1, || {
            // SAFETY: the data is not changed.
            sent = unsafe { world.isend(data.as_ptr(), SIZE, peer, DATA) }?;
            Ok(())
        })?;
        let wait = counter.time(1, || world.wait(&mut sent))?;
        let received = early.map_or_else(receive, Ok)?;
        for (all, one) in times.iter_mut().zip([send, wait, start, received]) {
            all.push(one);
        }
    }
    let [send, wait, start, received] = times.map(|all| medians(&all[ROUNDS / 10..]));
    of_both(world, [&send, &wait], [&start, &received])
}

/// Tells both ranks the calls of rank 0, which sends, and of rank 1, which receives.
fn of_both(world: &World, sends: [&Times; 2], receives: [&Times; 2]) -> Result<Calls> {
    let of = |rank: usize, times: &Times| -> Result<Times> {
        let mine = |time: f64| if world.rank == rank { time } else { 0.0 };
        let all = times
            .iter()
            .map(|time| world.agree(mine(*time), Combine::Sum));
        all.collect()
    };
    Ok(Calls {
        isend: of(0, sends[0])?,
        wait_send: of(0, sends[1])?,
        irecv: of(1, receives[0])?,
        wait_receive: of(1, receives[1])?,
    })
}

/// Counts `MPI_Put` and the flush after `window` of them.
fn puts(counter: &Counter<'_>, window: usize) -> Result<[Times; 2]> {
    let world = counter.world;
    let memory = Window::allocate(world, SIZE, &[])?;
    let data = [1_u8; SIZE];
    let (mut puts, mut flushes) = (Vec::new(), Vec::new());
    for _ in 0..if world.rank == 0 { ROUNDS } else { 0 } {
        puts.push(counter.time(window, || {
            // SAFETY: the data is not changed.
            (0..window).try_for_each(|_| unsafe { memory.put(&data, 1, 0) })
        })?);
        flushes.push(counter.time(1, || memory.flush(1))?);
    }
    world.barrier()?;
    memory.free()?;
    Ok([medians(&puts), medians(&flushes)])
}

/// Nanoseconds of half of a ping-pong, without stamps.
fn latency(world: &World) -> Result<f64> {
    const TURNS: u32 = 2000;
    let peer = 1 - world.rank;
    let (data, mut space) = ([1_u8; SIZE], [0_u8; SIZE]);
    let mut halves = Vec::new();
    for _ in 0..9 {
        world.barrier()?;
        let start = Instant::now();
        for _ in 0..TURNS {
            // SAFETY: the space is not read, and the request is waited for.
            let mut expected = unsafe { world.irecv(space.as_mut_ptr(), SIZE, peer, DATA) }?;
            if world.rank == 1 {
                world.wait(&mut expected)?;
            }
            // SAFETY: the data is not changed.
            world.wait(&mut unsafe { world.isend(data.as_ptr(), SIZE, peer, DATA) }?)?;
            if world.rank == 0 {
                world.wait(&mut expected)?;
            }
        }
        halves.push(start.elapsed().as_nanos() as f64 / f64::from(2 * TURNS));
    }
    Ok(Summary::of(&halves).map_or(0.0, |all| all.median))
}

/// Nanoseconds between a post and the arrival: between two cores those of a cache line less the load that
/// the receiver's wait makes of it; over TCP those of two bare sockets less the system calls, for which
/// the library's own are taken. `None`: not measured over this transport, or the rank is bound to one
/// core (`mpiexec -bind-to none`).
fn wire(world: &World, one: &Calls) -> Result<Option<f64>> {
    let is = |name: &str, value: &str| env::var(name).is_ok_and(|text| text == value);
    let mut time = None;
    if world.rank != 0 {
        thread::sleep(ASIDE);
    } else if let Some(line) = round_trip() {
        if !is("WEFT_SHM", "0") {
            time = fetch().map(|load| line / 2.0 - load);
        } else if env::var_os("WEFT_NETMOD").is_none() || is("WEFT_NETMOD", "tcp") {
            let calls = one.isend[5] + one.wait_receive[5];
            time = tcp_half_round_trip(FRAME)?.map(|half| half - calls);
        }
    }
    world.barrier()?;
    Ok(time)
}

/// Nanoseconds a message of windows by several threads, without stamps and without
/// acknowledgements; then those of each part, with them.
fn windows(
    counter: &Counter<'_>,
    bench: &Bench<'_>,
    worlds: &[World],
    threads: u16,
) -> Result<(f64, Times)> {
    let world = counter.world;
    let role = match world.rank {
        0 => Role::First { peer: 1 },
        _ => Role::Second { peer: 0 },
    };
    let window = bench.options.window;
    let mut lanes = Lane::all(worlds, threads, SIZE, window, false);
    let iterations = bench.warm_up_batches(SIZE, |n| run_lanes(&mut lanes, role, n).map(drop))?;
    let messages = iterations as usize * window as usize;
    let mut values = Vec::new();
    for _ in 0..5 {
        world.barrier()?;
        let took = run_lanes(&mut lanes, role, iterations)?;
        values.push(took.as_nanos() as f64 / (messages * usize::from(threads)) as f64);
    }
    world.barrier()?;
    let mut counted: Vec<(Lane, Times)> =
        lanes.into_iter().map(|lane| (lane, Times::new())).collect();
    together::run(
        &mut counted,
        |(lane, _)| lane.world(),
        |(lane, times)| {
            *times = counter.time(messages, || lane.run(role, iterations))?;
            Ok(())
        },
    )?;
    let times: Vec<Times> = counted.into_iter().map(|(_, times)| times).collect();
    let measured = Summary::of(&values).map_or(0.0, |all| all.median);
    Ok((measured, medians(&times)))
}

/// Returns the difference in per cent of what was measured.
fn off(predicted: f64, measured: f64) -> String {
    format!("{:+.0} %", (predicted / measured - 1.0) * 100.0)
}

fn row(bench: &Bench<'_>, name: &str, times: &[f64]) {
    let parts = PARTS.iter().zip(times).skip(1);
    let cells: String = parts
        .map(|(part, time)| format!("  {part} {time:>8.1}"))
        .collect();
    bench.say(&format!("{name:<22}{cells}  all {:>8.1}", within(times)));
}

fn head(bench: &Bench<'_>, counter: &Counter<'_>, title: &str) {
    bench.say(&bench.world.title(title));
    bench.say(&format!(
        "# {SIZE} bytes, windows of {}, nanoseconds a message; a stamp takes {:.1}, which is subtracted",
        bench.options.window,
        counter.stamp * counter.tick
    ));
}

/// `breakdown`: calls by layer, and the models of injection and latency.
pub fn run(world: &World, options: &Options) -> Result<bool> {
    let bench = two_ranks(world, options, BANDWIDTH)?;
    let counter = Counter::new(world)?;
    head(&bench, &counter, "Breakdown");
    let window = options.window as usize;
    let many = calls(&counter, window)?;
    let half = latency(world)?;
    let one = turns(&counter, Duration::from_nanos(4 * half as u64))?;
    for (kind, calls) in [("", &many), (", alone", &one)] {
        row(&bench, &format!("Isend{kind}"), &calls.isend);
        row(&bench, &format!("Wait, sent{kind}"), &calls.wait_send);
        row(&bench, &format!("Irecv{kind}"), &calls.irecv);
        row(
            &bench,
            &format!("Wait, received{kind}"),
            &calls.wait_receive,
        );
    }
    let [put, flush] = puts(&counter, window)?;
    if world.rank == 0 {
        row(&bench, "Put", &put);
        row(&bench, "Flush", &flush);
    }
    let wire = wire(world, &one)?;
    let (measured, _) = windows(&counter, &bench, &[world.view()], 1)?;

    let send = plus(&many.isend, &many.wait_send);
    let receive = within(&many.irecv) + within(&many.wait_receive);
    let (post, progress) = (within(&many.isend), within(&many.wait_send));
    let injection = post + progress + send[0];
    let rate = injection.max(receive);
    bench.say(&format!(
        "injection  = post {post:.1} + progress {progress:.1} + misc {:.1} = {injection:.1} ns; the receiver takes {receive:.1}; measured {measured:.1}: {} off",
        send[0],
        off(rate, measured)
    ));
    let depth = (2.0 * half / post).ceil();
    bench.say(&format!(
        "in flight >= {depth:.0} messages, round trip / post (equation 2.2)"
    ));
    let path = plus(&one.isend, &one.wait_receive);
    let turn = within(&one.irecv) / 2.0;
    let known = within(&path) + turn;
    match wire {
        Some(wire) => bench.say(&format!(
            "latency    = post {:.0} + wire {wire:.0} + progress {:.0} + half of Irecv {turn:.0} = {:.0} ns; measured {half:.0}: {} off",
            within(&one.isend),
            within(&one.wait_receive),
            known + wire,
            off(known + wire, half)
        )),
        None => bench.say(&format!(
            "latency    = {known:.0} ns in the library of {half:.0} measured; the wire is the rest"
        )),
    }
    // Without a measurement the wire is the rest.
    let transit = wire.unwrap_or(half - known);
    let total = known + transit;
    for (part, name) in PARTS.iter().enumerate().skip(1) {
        what_if(&bench, name, send[part] / injection, path[part] / total);
    }
    what_if(&bench, "wire", 0.0, transit / total);
    Ok(true)
}

/// Prints what a part that costs less would gain, by its shares of injection and latency.
fn what_if(bench: &Bench<'_>, name: &str, injection: f64, latency: f64) {
    let gains = [20, 50, 84].map(|less| {
        let [injection, latency] = [injection, latency].map(|share| share * f64::from(less));
        format!("{less} % less: injection {injection:.1} %, latency {latency:.1} %")
    });
    bench.say(&format!("what-if {name:<9} {}", gains.join("; ")));
}

/// `breakdown_mt`: the same by number of threads, with a communicator each and one for all. The
/// model: threads that share nothing inject as often as one on each core that the rank has, those
/// that share a VCI as often as one.
pub fn run_threads(world: &World, options: &Options) -> Result<bool> {
    let bench = two_ranks(world, options, BANDWIDTH)?;
    let counter = Counter::new(world)?;
    let cores = thread::available_parallelism()
        .map_or(1, |all| all.get() / 2)
        .max(1);
    head(&bench, &counter, "Breakdown by Threads");
    let mut alone = None;
    let mut threads = 1;
    while threads <= options.threads {
        let own = (0..threads).map(|_| world.duplicate());
        let own: Vec<World> = own.collect::<Result<_>>()?;
        for (name, worlds) in [("own", &own[..]), ("shared", &own[..1])] {
            let (measured, times) = windows(&counter, &bench, worlds, threads)?;
            let alone = *alone.get_or_insert(measured);
            let together = match name {
                "own" => cores.min(threads.into()),
                _ => 1,
            };
            let predicted = alone / together as f64;
            row(&bench, &format!("{threads} {name}"), &times);
            bench.say(&format!(
                "injection, {threads} {name}: predicted {predicted:.1} ns, measured {measured:.1}: {} off",
                off(predicted, measured)
            ));
        }
        own.into_iter().try_for_each(World::free)?;
        threads *= 2;
    }
    Ok(true)
}
