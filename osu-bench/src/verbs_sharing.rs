//! What sharing an adapter's resources between threads costs and saves: message rates of small RDMA
//! writes by several threads of one process, and the resources that they use.
//!
//! Threads share contexts, doorbell pages, completion queues or queue pairs x-way: with 16 threads
//! and 4-way sharing there are 4 of what is shared. That is how chapter 3 of R. Zambre's thesis
//! "Exascalable Communication for Modern Supercomputing" (figures 3.8 to 3.12, table 3.2) looks at it.
//! The process writes to its own memory, through a second device if there is one, so no launcher is
//! needed. A post is one work request: the transport has no lists of them.

use std::collections::HashMap;
use std::sync::{Arc, Barrier, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use netmod::{
    Header, Issued, Lane, LaneError, OpenError, Peer, RemoteAccess, RemoteAddr, RemoteKey,
    Resolver, Sink, Token, Transport, VciId,
};
use netmod_verbs::{Config, Resources, Sharing, VerbsTransport};

use crate::error::{Error, Result};
use crate::output::say;
use crate::together::ended;

/// Options of `verbs-sharing`.
#[derive(Args)]
pub struct SharingOptions {
    /// Threads that send.
    #[arg(short, long, default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=128))]
    threads: u16,
    /// Messages of each thread.
    #[arg(short = 'i', long, default_value_t = 100_000)]
    messages: u64,
    /// Bytes of a message.
    #[arg(short, long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=4096))]
    size: u32,
    /// Only this level: context, 2x-domain (twice as many thread domains as threads, of which every
    /// second is used), domain, uar, cq or qp.
    #[arg(short, long)]
    level: Option<String>,
    /// Work requests that a queue pair holds.
    #[arg(long, default_value_t = 128, value_parser = clap::value_parser!(u16).range(16..=4096))]
    depth: u16,
    /// Signal the end of one write in as many; 1 is without unsignalled completions.
    #[arg(short = 'q', long, value_name = "WRITES", default_value_t = 64,
          value_parser = clap::value_parser!(u32).range(1..=2048))]
    signal_every: u32,
    /// Let the adapter fetch the data, instead of writing it into the work request.
    #[arg(long)]
    no_inline: bool,
    /// The devices at both ends, as in "mlx5_0" or "mlx5_0,mlx5_1".
    #[arg(short, long)]
    device: Option<String>,
}

/// A level of sharing, and the VCIs opened per thread, of which the first is used.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Level {
    name: &'static str,
    sharing: Sharing,
    each: u16,
}

impl Level {
    /// Returns all levels, in order of increasing sharing.
    fn all() -> Vec<Level> {
        let level = |sharing: Sharing| Level {
            name: sharing.name(),
            sharing,
            each: 1,
        };
        let mut all: Vec<Level> = Sharing::ALL.into_iter().map(level).collect();
        let spare = Level {
            name: "2x-domain",
            sharing: Sharing::Domain,
            each: 2,
        };
        all.insert(1, spare);
        all
    }
}

/// Returns the doorbell pages (UARs), the registers on them (uUARs, two on each) and the per cent of
/// these that no thread uses, as the driver of ConnectX adapters deals them out.
fn doorbells(used: &Resources, threads: usize) -> [usize; 3] {
    let pages = used.doorbell_pages();
    let idle = (2 * pages).saturating_sub(threads);
    [pages, 2 * pages, (100 * idle).div_ceil(2 * pages.max(1))]
}

/// Returns whether a device is a ConnectX, by its driver.
fn is_connectx(device: &str) -> bool {
    let driver = format!("/sys/class/infiniband/{device}/device/driver");
    std::fs::read_link(driver).is_ok_and(|driver| driver.ends_with("mlx5_core"))
}

/// Time that connecting may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// Addresses of both ends.
#[derive(Default)]
struct Directory(Mutex<HashMap<(Peer, VciId), Vec<u8>>>);

impl Resolver for Directory {
    fn resolve(&self, peer: Peer, vci: VciId) -> std::result::Result<Vec<u8>, OpenError> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let address = known.get(&(peer, vci)).cloned();
        address.ok_or_else(|| OpenError(format!("process {peer} has no VCI {vci}")))
    }
}

/// Notes the ends of flushes.
#[derive(Default)]
struct Ends {
    flushed: u64,
    failed: Option<String>,
}

impl Sink for Ends {
    fn message(&mut self, _: Peer, _: &Header, _: &[u8]) {}
    fn complete(&mut self, _: Token, result: std::result::Result<(), LaneError>) {
        self.flushed += 1;
        if let Err(error) = result {
            self.failed.get_or_insert(error.to_string());
        }
    }
    fn peer_lost(&mut self, _: Peer, why: String) {
        self.failed.get_or_insert(why);
    }
}

/// Threads that share resources: a transport at each end.
struct Group {
    source: VerbsTransport,
    target: VerbsTransport,
    peer: Peer,
    key: RemoteKey,
    lanes: Vec<Box<dyn Lane>>,
    served: Vec<Box<dyn Lane>>,
    /// Written to by peers; dropped last.
    _memory: Vec<u64>,
}

fn failed(error: impl std::fmt::Display) -> Error {
    Error::new(error.to_string())
}

impl Group {
    fn open(
        number: u32,
        level: Level,
        lanes: u16,
        options: &SharingOptions,
        devices: &[Option<String>; 2],
    ) -> Result<Group> {
        let lanes = lanes * level.each;
        let directory = Arc::new(Directory::default());
        let (me, peer) = (2 * number, 2 * number + 1);
        let open = |peer, device: &Option<String>| {
            let config = Config {
                device: device.clone(),
                sharing: level.sharing,
                send_queue: options.depth.into(),
                signal_every: options.signal_every,
                inline: !options.no_inline,
                ..Config::new(peer)
            };
            VerbsTransport::open(config, directory.clone()).map_err(failed)
        };
        let source = open(me, &devices[0])?;
        let target = open(peer, &devices[1])?;
        let lanes_of = |transport: &VerbsTransport, peer| {
            (0..lanes)
                .map(|vci| {
                    let lane = transport.open_lane(vci).map_err(failed)?;
                    let mut known = directory.0.lock().unwrap_or_else(PoisonError::into_inner);
                    known.insert((peer, vci), transport.address(vci));
                    Ok(lane)
                })
                .collect::<Result<Vec<_>>>()
        };
        let mut memory = vec![0_u64; 512 * usize::from(lanes)];
        // SAFETY: the memory is dropped with the group, after the transport.
        let key = unsafe { target.expose(memory.as_mut_ptr().cast(), 8 * memory.len()) };
        Ok(Group {
            lanes: lanes_of(&source, me)?,
            served: lanes_of(&target, peer)?,
            key: key.map_err(failed)?,
            peer,
            source,
            target,
            _memory: memory,
        })
    }

    /// Writes once by each lane, which connects it.
    fn connect(&mut self) -> Result<()> {
        let began = Instant::now();
        let mut ends = Ends::default();
        for (vci, lane) in self.lanes.iter_mut().enumerate() {
            let remote = place(self.key, vci);
            // SAFETY: a write this small is taken over at once.
            while !unsafe { put(&mut **lane, self.peer, vci as VciId, &[0], remote)? } {
                lane.poll(&mut ends, 16);
                for served in &mut self.served {
                    served.poll(&mut ends, 16);
                }
                if began.elapsed() > PATIENCE {
                    return Err(Error::new("the two ends do not connect"));
                }
                thread::yield_now();
            }
        }
        Ok(())
    }
}

/// Returns the place that a lane writes to: a page for each.
fn place(key: RemoteKey, vci: usize) -> RemoteAddr {
    RemoteAddr {
        key,
        offset: 4096 * vci as u64,
    }
}

/// Writes the messages of one thread and waits until all have arrived.
fn send(
    lane: &mut dyn Lane,
    peer: Peer,
    vci: VciId,
    remote: RemoteAddr,
    options: &SharingOptions,
) -> Result<()> {
    let data = vec![1_u8; options.size as usize];
    let mut ends = Ends::default();
    for _ in 0..options.messages {
        // SAFETY: writes up to the size of an eager buffer are taken over at once.
        while !unsafe { put(lane, peer, vci, &data, remote)? } {
            lane.poll(&mut ends, 16);
        }
    }
    if lane.flush(peer, Token(2)).map_err(failed)? == Issued::Pending {
        while ends.flushed == 0 {
            lane.poll(&mut ends, 16);
        }
    }
    ends.failed.map_or(Ok(()), |why| Err(Error::new(why)))
}

/// Starts a write; returns false if the lane can't take it now.
///
/// # Safety
/// `data` is no longer than what the lane takes over at once.
unsafe fn put(
    lane: &mut dyn Lane,
    peer: Peer,
    vci: VciId,
    data: &[u8],
    remote: RemoteAddr,
) -> Result<bool> {
    // SAFETY: the caller keeps to the length that needs no memory after the call.
    match unsafe {
        lane.access(
            peer,
            vci,
            RemoteAccess::put(data.as_ptr(), data.len(), remote),
            Token(1),
        )
    } {
        Ok(_) => Ok(true),
        Err(LaneError::Again) => Ok(false),
        Err(error) => Err(failed(error)),
    }
}

/// A line of the table.
struct Row {
    rate: f64,
    used: Resources,
    sharing: Sharing,
    connectx: bool,
}

fn measure(
    options: &SharingOptions,
    level: Level,
    way: u16,
    devices: &[Option<String>; 2],
) -> Result<Row> {
    let count = options.threads / way;
    let mut groups = (0..u32::from(count))
        .map(|number| Group::open(number, level, way, options, devices))
        .collect::<Result<Vec<_>>>()?;
    groups.iter_mut().try_for_each(Group::connect)?;
    let used = groups.iter().map(|group| group.source.resources());
    let used = used.reduce(add).unwrap_or_default();
    let real = groups[0].source.sharing();
    let connectx = is_connectx(groups[0].source.device());
    let each = usize::from(level.each);

    let start = Barrier::new(usize::from(options.threads) + 1);
    let (took, results) = thread::scope(|scope| {
        let mut handles = Vec::new();
        for group in &mut groups {
            let (peer, key) = (group.peer, group.key);
            for (vci, lane) in group.lanes.iter_mut().enumerate().step_by(each) {
                let start = &start;
                handles.push(scope.spawn(move || {
                    start.wait();
                    send(&mut **lane, peer, vci as VciId, place(key, vci), options)
                }));
            }
        }
        start.wait();
        let began = Instant::now();
        let results: Vec<_> = handles.into_iter().map(|handle| handle.join()).collect();
        (began.elapsed(), results)
    });
    for result in results {
        result.map_err(|_| ended())??;
    }
    for group in groups {
        // The writing end closes before the memory that it writes to.
        drop(group.lanes);
        drop(group.source);
        drop(group.served);
        group.target.withdraw(&group.key);
    }
    let total = options.messages * u64::from(options.threads);
    Ok(Row {
        rate: total as f64 / took.as_secs_f64(),
        used,
        sharing: real,
        connectx,
    })
}

fn add(one: Resources, two: Resources) -> Resources {
    Resources {
        contexts: one.contexts + two.contexts,
        thread_domains: one.thread_domains + two.thread_domains,
        queue_pairs: one.queue_pairs + two.queue_pairs,
        completion_queues: one.completion_queues + two.completion_queues,
        receive_queues: one.receive_queues + two.receive_queues,
        buffer_bytes: one.buffer_bytes + two.buffer_bytes,
    }
}

/// Measures and prints.
pub fn run(options: &SharingOptions) -> Result<()> {
    let mut levels = Level::all();
    if let Some(name) = &options.level {
        levels.retain(|level| level.name == name);
        if levels.is_empty() {
            return Err(Error::new(format!(
                "there is no level {name:?}; it can be context, 2x-domain, domain, uar, cq or qp"
            )));
        }
    }
    let mut devices = [None, None];
    if let Some(text) = &options.device {
        let (one, two) = text.split_once(',').unwrap_or((text, text));
        devices = [Some(one.to_string()), Some(two.to_string())];
    }
    say(&format!(
        "# RDMA writes of {} bytes by {} threads, {} each; queues of {}, one write in {} signalled, \
         {}; resources of the sending side\n\
         # UARs, uUARs and idle ones (%): as the driver of ConnectX adapters deals them out, - on others;\n\
         # one QP per completion queue or VCI sets connections up; memory is that of eager buffers",
        options.size,
        options.threads,
        options.messages,
        options.depth,
        options.signal_every,
        if options.no_inline {
            "not inline"
        } else {
            "inline"
        }
    ));
    let row = |level: &str, way: &str, rate: &str, used: [&str; 9]| {
        let [contexts, used @ .., memory] = used;
        let used: String = used.iter().map(|number| format!("{number:>6}")).collect();
        say(&format!(
            "{level:<10}{way:>4}{rate:>14}{contexts:>10}{used}{memory:>12}"
        ));
    };
    let names = [
        "contexts",
        "TDs",
        "UARs",
        "uUARs",
        "idle",
        "QPs",
        "CQs",
        "SRQs",
        "memory KiB",
    ];
    row("# level", "way", "messages/s", names);
    for level in levels {
        let mut fallen_back = None;
        let most = match level.sharing {
            // Nothing is shared, however many VCIs there are.
            Sharing::Context => 1,
            _ => options.threads,
        };
        let ways = (0..16)
            .map(|power| 1 << power)
            .take_while(|way| *way <= most);
        for way in ways.filter(|way| options.threads.is_multiple_of(*way)) {
            let Row {
                rate,
                used,
                sharing,
                connectx,
            } = measure(options, level, way, &devices)?;
            let posting = match sharing {
                Sharing::Qp => options.threads / way,
                _ => options.threads,
            };
            let [pages, registers, idle] =
                doorbells(&used, posting.into()).map(|number| match connectx {
                    true => number.to_string(),
                    false => "-".to_owned(),
                });
            let numbers = [
                used.contexts.to_string(),
                used.thread_domains.to_string(),
                pages,
                registers,
                idle,
                used.queue_pairs.to_string(),
                used.completion_queues.to_string(),
                used.receive_queues.to_string(),
                (used.buffer_bytes / 1024).to_string(),
            ];
            let numbers = numbers.each_ref().map(String::as_str);
            row(level.name, &way.to_string(), &format!("{rate:.0}"), numbers);
            if sharing != level.sharing {
                fallen_back = Some(sharing);
            }
        }
        if let Some(real) = fallen_back {
            say(&format!(
                "#   the device has no thread domains: level {} was measured in place of {}",
                real.name(),
                level.sharing.name()
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doorbells_are_those_of_the_thesis() {
        let used = |contexts, thread_domains| Resources {
            contexts,
            thread_domains,
            ..Resources::default()
        };
        // A context with a thread domain for each of 16 threads, one context with twice as many
        // domains as threads (2xDynamic), and with none (Static): section 3.4 and table 3.2.
        assert_eq!(doorbells(&used(16, 16), 16), [144, 288, 95]);
        assert_eq!(doorbells(&used(1, 32), 16), [40, 80, 80]);
        assert_eq!(doorbells(&used(1, 0), 16), [8, 16, 0]);
    }
}
