//! Reports of the process's current call to `mpiexec -top`.
//!
//! Each thread stores its current call. A thread of this library reads it twice a second and sends
//! a datagram to the addresses in `WEFT_TOP`; it never calls MPI. Lost datagrams don't matter,
//! since each holds the whole state. `tools/weft-top/src/message.rs` parses them.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;
use std::{env, mem, ptr, thread};

use parking_lot::Mutex;

use crate::abi::Abi;
use crate::clock::{self, Moment, Scale};
use crate::names::NAMES;
use crate::pmpi::{self, Handle};
use crate::record;

/// Time between two reports.
const STEP: Duration = Duration::from_millis(500);
/// Requests in the hash table [`STARTED`].
const REQUESTS: usize = 4096;
/// Requests of an array that are searched for one in [`STARTED`].
const LOOKED_AT: usize = 64;
/// A number that is neither a rank nor a tag.
const NOTHING: i32 = i32::MIN;

/// Whether calls are stored.
static WATCHING: AtomicBool = AtomicBool::new(false);

/// 0 before `MPI_Finalize`, 1 in it, 2 after it.
static STAGE: AtomicU8 = AtomicU8::new(0);

static WATCH: OnceLock<Watch> = OnceLock::new();

/// The names that the program has given to communicators.
static COMMS: Mutex<BTreeMap<Handle, String>> = Mutex::new(BTreeMap::new());

static STARTED: [Request; REQUESTS] = [const {
    Request {
        handle: AtomicU64::new(0),
        whom: Whom::new(),
    }
}; REQUESTS];

/// The arguments of a function that name its partner.
#[derive(Clone, Copy)]
pub struct Facts {
    /// Whether it has a communicator.
    pub comm: bool,
    /// The word before the peer: "from", "to", "root"; empty without a peer.
    pub word: &'static str,
    /// Whether it has a tag.
    pub tag: bool,
}

/// An operation's partner: number of the function, communicator, rank and tag.
struct Whom {
    function: AtomicU32,
    comm: AtomicU64,
    peer: AtomicI32,
    tag: AtomicI32,
}

impl Whom {
    const fn new() -> Whom {
        Whom {
            function: AtomicU32::new(0),
            comm: AtomicU64::new(0),
            peer: AtomicI32::new(NOTHING),
            tag: AtomicI32::new(NOTHING),
        }
    }

    fn set(&self, function: usize, [comm, peer, tag]: [usize; 3]) {
        let facts = crate::functions::FACTS[function];
        let number = |is: bool, value: usize| if is { value as i32 } else { NOTHING };
        let comm = if facts.comm { comm as u64 } else { 0 };
        self.function.store(function as u32, Ordering::Relaxed);
        self.comm.store(comm, Ordering::Relaxed);
        let peer = number(!facts.word.is_empty(), peer);
        self.peer.store(peer, Ordering::Relaxed);
        let tag = number(facts.tag, tag);
        self.tag.store(tag, Ordering::Relaxed);
    }
}

/// A started operation, to describe calls that wait for its request.
struct Request {
    handle: AtomicU64,
    whom: Whom,
}

/// The outermost call that a thread is in.
pub struct Call {
    /// Its start in ticks; 0 outside of MPI.
    since: AtomicU64,
    whom: Whom,
    /// Number of requests that it waits for, and the first one in [`STARTED`].
    requests: AtomicU32,
    first: AtomicU64,
}

impl Call {
    /// Creates the state of a thread outside of MPI.
    pub const fn new() -> Call {
        Call {
            since: AtomicU64::new(0),
            whom: Whom::new(),
            requests: AtomicU32::new(0),
            first: AtomicU64::new(0),
        }
    }

    /// Stores that the thread enters a function.
    #[cold]
    #[inline(never)]
    pub fn begin(&self, ticks: u64, function: usize, arguments: [usize; 3]) {
        self.whom.set(function, arguments);
        let (count, first) = WAITED.get();
        WAITED.set((0, 0));
        self.requests.store(count, Ordering::Relaxed);
        self.first.store(first, Ordering::Relaxed);
        self.since.store(ticks.max(1), Ordering::Release);
    }

    /// Stores that the thread has left the function.
    pub fn end(&self) {
        self.since.store(0, Ordering::Release);
    }
}

thread_local! {
    /// The requests that the next call waits for: their number, and the first one in [`STARTED`].
    static WAITED: Cell<(u32, u64)> = const { Cell::new((0, 0)) };
}

/// Destination and constant fields of the reports.
struct Watch {
    token: String,
    sockets: Vec<(UdpSocket, Vec<SocketAddr>)>,
    rank: usize,
    size: usize,
    spawned: bool,
    host: String,
    abi: Abi,
    begin: Moment,
}

/// Starts the reports to `WEFT_TOP` (`TOKEN PORT ADDRESS,ADDRESS,…`). Returns whether it is set.
pub fn begin(begin: Moment) -> bool {
    let Ok(text) = env::var("WEFT_TOP") else {
        return false;
    };
    let Some(watch) = Watch::new(&text, begin) else {
        eprintln!("Weft: WEFT_TOP is '{text}', which is not a value of mpiexec -top; unset it");
        return false;
    };
    if WATCH.set(watch).is_err() {
        return false;
    }
    WATCHING.store(true, Ordering::Relaxed);
    // Signals must go to the program's threads, not to the new one.
    let mut all = mem::MaybeUninit::<libc::sigset_t>::uninit();
    let mut before = mem::MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: both pointers are to locals, and sigfillset fills `all` before it is read.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
    }
    let started = thread::Builder::new()
        .name("weft-top".to_owned())
        .stack_size(256 << 10)
        .spawn(run);
    // SAFETY: pthread_sigmask above has filled `before`.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), ptr::null_mut()) };
    if let Err(error) = started {
        eprintln!(
            "Weft: mpiexec -top will not show this process, since its thread can't be started: {error}"
        );
    }
    true
}

/// Reports the start (or, if `over`, the end) of `MPI_Finalize`.
pub fn finalize(over: bool) {
    let Some(watch) = WATCH.get() else { return };
    STAGE.store(if over { 2 } else { 1 }, Ordering::Relaxed);
    watch.send();
}

fn run() {
    let Some(watch) = WATCH.get() else { return };
    while STAGE.load(Ordering::Relaxed) < 2 {
        watch.send();
        thread::sleep(STEP);
    }
}

/// Stores the operation that a function has started with this request.
pub fn started(request: *const usize, function: usize, arguments: [usize; 3]) {
    if !WATCHING.load(Ordering::Relaxed) {
        return;
    }
    // SAFETY: the MPI function has just written the handle to `request`.
    let handle = unsafe { handle(request, 0) };
    let place = &STARTED[place(handle)];
    place.whom.set(function, arguments);
    place.handle.store(handle, Ordering::Relaxed);
}

/// Stores the requests that the next call waits for; they are its arguments.
pub fn waits(count: usize, requests: *const usize) {
    let count = u32::try_from(count as i32).unwrap_or(0);
    if !WATCHING.load(Ordering::Relaxed) || requests.is_null() {
        return;
    }
    let known = (0..(count as usize).min(LOOKED_AT)).find_map(|index| {
        // SAFETY: the program passes an array of `count` handles to MPI.
        let handle = unsafe { handle(requests, index) };
        let is_known = STARTED[place(handle)].handle.load(Ordering::Relaxed) == handle;
        (handle != 0 && is_known).then_some(handle)
    });
    WAITED.set((count, known.unwrap_or(0)));
}

/// Reads a handle of an array, with the width of the program's ABI.
///
/// # Safety
///
/// `array` has more than `index` handles.
unsafe fn handle(array: *const usize, index: usize) -> u64 {
    let wide = WATCH.get().is_some_and(|watch| watch.abi.wide);
    match wide {
        // SAFETY: by the contract the array has this element.
        true => unsafe { array.add(index).read() as u64 },
        // SAFETY: by the contract the array has this element.
        false => u64::from(unsafe { array.cast::<u32>().add(index).read() }),
    }
}

fn place(handle: u64) -> usize {
    (handle.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 52) as usize % REQUESTS
}

/// Stores the name that the program gives to a communicator.
pub fn named(comm: Handle, name: *const libc::c_char) {
    if !WATCHING.load(Ordering::Relaxed) || name.is_null() {
        return;
    }
    // SAFETY: the program passes a C string to MPI_Comm_set_name.
    let name = unsafe { std::ffi::CStr::from_ptr(name) };
    COMMS.lock().insert(comm, clean(&name.to_string_lossy()));
}

/// Removes the name of a communicator that is freed, since its handle may be reused.
pub fn freed(comm: *const usize) {
    if WATCHING.load(Ordering::Relaxed) && !comm.is_null() {
        // SAFETY: the program passes a pointer to a handle to MPI.
        let handle = unsafe { handle(comm, 0) };
        COMMS.lock().remove(&(handle as Handle));
    }
}

/// Removes control characters, which separate fields.
fn clean(text: &str) -> String {
    text.chars().filter(|one| !one.is_control()).collect()
}

impl Watch {
    fn new(text: &str, begin: Moment) -> Option<Watch> {
        let mut words = text.split(' ');
        let token = words.next().filter(|token| !token.is_empty())?.to_owned();
        let port: u16 = words.next()?.parse().ok()?;
        let mut addresses = [Vec::new(), Vec::new()];
        for address in words.next()?.split(',') {
            let address: IpAddr = address.parse().ok()?;
            addresses[usize::from(address.is_ipv6())].push(SocketAddr::new(address, port));
        }
        let sockets = ["0.0.0.0", "::"].into_iter().zip(addresses);
        let sockets = sockets.filter_map(|(any, addresses)| {
            let socket = UdpSocket::bind((any, 0)).ok()?;
            socket.set_nonblocking(true).ok()?;
            (!addresses.is_empty()).then_some((socket, addresses))
        });
        let abi = Abi::get();
        let mut host = [0_u8; 256];
        // SAFETY: `host` has one byte more than the given length.
        unsafe { libc::gethostname(host.as_mut_ptr().cast(), host.len() - 1) };
        let host = host.split(|byte| *byte == 0).next().unwrap_or_default();
        Some(Watch {
            token,
            sockets: sockets.collect(),
            rank: pmpi::comm_rank(abi.world),
            size: pmpi::comm_size(abi.world),
            spawned: env::var_os("PMI_SPAWNED")
                .is_some_and(|value| !value.is_empty() && value != "0"),
            host: clean(&String::from_utf8_lossy(host)),
            abi,
            begin,
        })
    }

    /// Sends the current state.
    fn send(&self) {
        let text = self.text();
        for (socket, addresses) in &self.sockets {
            for address in addresses {
                // From some hosts some addresses are unreachable.
                let _ = socket.send_to(text.as_bytes(), address);
            }
        }
    }

    fn text(&self) -> String {
        let scale = Scale::between(self.begin, Moment::now());
        let now = clock::ticks();
        let threads = record::threads();
        let (mut calls, mut bytes, mut inside) = (0_u64, 0_u64, 0_u64);
        let mut current: Option<(u64, &Call)> = None;
        for thread in &threads {
            for counter in &thread.counters {
                calls += counter.calls.load(Ordering::Relaxed);
                bytes = bytes.wrapping_add(counter.bytes.load(Ordering::Relaxed));
                inside += counter.ticks.load(Ordering::Relaxed);
            }
            let since = thread.call.since.load(Ordering::Acquire);
            if since != 0 {
                inside += now.saturating_sub(since);
                if current.is_none_or(|(first, _)| since < first) {
                    current = Some((since, &thread.call));
                }
            }
        }
        let stage = STAGE.load(Ordering::Relaxed);
        let (what, lasts, whom) = match (stage, current) {
            (1, _) => ("MPI_Finalize".to_owned(), 0, Default::default()),
            (2, _) => ("finalized".to_owned(), 0, Default::default()),
            (_, None) => (String::new(), 0, Default::default()),
            (_, Some((since, call))) => self.call(scale.span(now.saturating_sub(since)), call),
        };
        let [partner, peer, tag, comm] = whom;
        let (rank, size, host, token) = (self.rank, self.size, &self.host, &self.token);
        let (spawned, pid) = (u8::from(self.spawned), std::process::id());
        let (elapsed, inside, threads) = (scale.elapsed, scale.span(inside), threads.len());
        format!(
            "weft-top 1\t{token}\t{rank}\t{size}\t{spawned}\t{host}\t{pid}\t{what}\t{lasts}\t{partner}\t{peer}\t{tag}\t\
             {comm}\t{calls}\t{bytes}\t{inside}\t{elapsed}\t{threads}"
        )
    }

    /// Describes a call: function, nanoseconds, partner.
    fn call(&self, lasts: u64, call: &Call) -> (String, u64, [String; 4]) {
        let name = |whom: &Whom| {
            let function = whom.function.load(Ordering::Relaxed) as usize;
            NAMES.get(function).copied().unwrap_or("?").to_owned()
        };
        let what = name(&call.whom);
        let first = call.first.load(Ordering::Relaxed);
        let started = &STARTED[place(first)];
        let requests = call.requests.load(Ordering::Relaxed);
        if first != 0 && started.handle.load(Ordering::Relaxed) == first {
            let [partner, peer, tag, comm] = self.whom(&started.whom);
            let of = match requests {
                0 | 1 => name(&started.whom),
                many => format!("{many} requests, first {}", name(&started.whom)),
            };
            // With several requests the call does not wait for one rank in particular.
            let peer = if requests < 2 { peer } else { String::new() };
            let partner = format!("{of} {partner}").trim_end().to_owned();
            return (what, lasts, [partner, peer, tag, comm]);
        }
        let mut whom = self.whom(&call.whom);
        if requests > 1 {
            whom[0] = format!("{requests} requests");
        }
        (what, lasts, whom)
    }

    /// Returns "from 3", the rank in MPI_COMM_WORLD if known, the tag and the communicator.
    fn whom(&self, whom: &Whom) -> [String; 4] {
        let function = whom.function.load(Ordering::Relaxed) as usize;
        let word = crate::functions::FACTS
            .get(function)
            .map_or("", |facts| facts.word);
        let (peer, tag) = (
            whom.peer.load(Ordering::Relaxed),
            whom.tag.load(Ordering::Relaxed),
        );
        let comm = whom.comm.load(Ordering::Relaxed) as Handle;
        let named = COMMS.lock().get(&comm).cloned();
        let comm_text = match (comm, named) {
            (0, _) => String::new(),
            (_, Some(name)) => name,
            (comm, None) if comm == self.abi.world => "MPI_COMM_WORLD".to_owned(),
            (comm, None) if comm == self.abi.own => "MPI_COMM_SELF".to_owned(),
            (comm, None) => format!("{comm:#x}"),
        };
        let partner = match peer {
            NOTHING => String::new(),
            peer if peer == self.abi.any_source => format!("{word} any"),
            peer if peer < 0 => String::new(),
            peer => format!("{word} {peer}"),
        };
        let is_one = peer >= 0 && comm == self.abi.world && word != "root";
        let peer = if is_one {
            peer.to_string()
        } else {
            String::new()
        };
        let tag = match tag {
            NOTHING => String::new(),
            tag if tag == self.abi.any_tag => "any".to_owned(),
            tag => tag.to_string(),
        };
        [partner, peer, tag, comm_text]
    }
}
