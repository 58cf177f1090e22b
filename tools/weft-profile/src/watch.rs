//! What the process is doing right now, told to `mpiexec -top` twice a second.
//!
//! Each thread notes the call that it is in with a few plain stores. A thread of this library's own reads that
//! and sends one datagram to the addresses in `WEFT_TOP`; it never calls MPI. Datagrams that are lost don't
//! matter: the next says it all again. `tools/weft-top/src/message.rs` reads them.

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

/// Between two datagrams.
const STEP: Duration = Duration::from_millis(500);
/// Requests that are remembered; the place of one follows from its handle.
const REQUESTS: usize = 4096;
/// Of so many of an array of requests the first that is known is told.
const LOOKED_AT: usize = 64;
/// A number that no rank and no tag is.
const NOTHING: i32 = i32::MIN;

/// Whether calls are noted.
static WATCHING: AtomicBool = AtomicBool::new(false);

/// Between `MPI_Init` and `MPI_Finalize`, in `MPI_Finalize`, behind it.
static STAGE: AtomicU8 = AtomicU8::new(0);

static WATCH: OnceLock<Watch> = OnceLock::new();

/// The names that the program gave to communicators.
static COMMS: Mutex<BTreeMap<Handle, String>> = Mutex::new(BTreeMap::new());

static STARTED: [Request; REQUESTS] = [const {
    Request {
        handle: AtomicU64::new(0),
        whom: Whom::new(),
    }
}; REQUESTS];

/// Which arguments say with whom a function talks; a place that there isn't is -1.
#[derive(Clone, Copy)]
pub struct Facts {
    /// The communicator.
    pub comm: bool,
    /// The word before the other rank: "from", "to", "root"; empty if none is named.
    pub word: &'static str,
    /// The tag.
    pub tag: bool,
}

/// Whom an operation is with: the function's number, communicator, rank and tag.
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

/// An operation that was started, for who waits for its request.
struct Request {
    handle: AtomicU64,
    whom: Whom,
}

/// The outermost call that a thread is in.
pub struct Call {
    /// When it began, in ticks; 0: it is in none.
    since: AtomicU64,
    whom: Whom,
    /// Requests that it waits for, and the first of them that is known.
    requests: AtomicU32,
    first: AtomicU64,
}

impl Call {
    /// None.
    pub const fn new() -> Call {
        Call {
            since: AtomicU64::new(0),
            whom: Whom::new(),
            requests: AtomicU32::new(0),
            first: AtomicU64::new(0),
        }
    }

    /// The thread enters a function.
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

    /// It has left it.
    pub fn end(&self) {
        self.since.store(0, Ordering::Release);
    }
}

thread_local! {
    /// What the next call waits for.
    static WAITED: Cell<(u32, u64)> = const { Cell::new((0, 0)) };
}

/// Where and what to send.
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

/// Begins, if `WEFT_TOP` says where to: `TOKEN PORT ADDRESS,ADDRESS,…`. Says whether calls are to be noted.
pub fn begin(begin: Moment) -> bool {
    let Ok(text) = env::var("WEFT_TOP") else {
        return false;
    };
    let Some(watch) = Watch::new(&text, begin) else {
        eprintln!("Weft: WEFT_TOP is for mpiexec -top to set; '{text}' is not from it");
        return false;
    };
    if WATCH.set(watch).is_err() {
        return false;
    }
    WATCHING.store(true, Ordering::Relaxed);
    // The program's signals are not for the new thread.
    let mut all = mem::MaybeUninit::<libc::sigset_t>::uninit();
    let mut before = mem::MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: both places can be written to, and the first is filled before it is read.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
    }
    let started = thread::Builder::new()
        .name("weft-top".to_owned())
        .stack_size(256 << 10)
        .spawn(run);
    // SAFETY: the call above has filled it.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), ptr::null_mut()) };
    if let Err(error) = started {
        eprintln!("Weft: this process is missing in mpiexec -top: no thread: {error}");
    }
    true
}

/// `MPI_Finalize` begins, or has returned.
pub fn finalize(over: bool) {
    let Some(watch) = WATCH.get() else { return };
    STAGE.store(if over { 2 } else { 1 }, Ordering::Relaxed);
    watch.tell();
}

fn run() {
    let Some(watch) = WATCH.get() else { return };
    while STAGE.load(Ordering::Relaxed) < 2 {
        watch.tell();
        thread::sleep(STEP);
    }
}

/// A function has started an operation with this request.
pub fn started(request: *const usize, function: usize, arguments: [usize; 3]) {
    if !WATCHING.load(Ordering::Relaxed) {
        return;
    }
    // SAFETY: the function has just written the handle there.
    let handle = unsafe { handle(request, 0) };
    let place = &STARTED[place(handle)];
    place.whom.set(function, arguments);
    place.handle.store(handle, Ordering::Relaxed);
}

/// A function is about to wait for these requests; the program gives them to this very function.
pub fn waits(count: usize, requests: *const usize) {
    let count = u32::try_from(count as i32).unwrap_or(0);
    if !WATCHING.load(Ordering::Relaxed) || requests.is_null() {
        return;
    }
    let known = (0..(count as usize).min(LOOKED_AT)).find_map(|index| {
        // SAFETY: the array has as many handles as the program says.
        let handle = unsafe { handle(requests, index) };
        let is_known = STARTED[place(handle)].handle.load(Ordering::Relaxed) == handle;
        (handle != 0 && is_known).then_some(handle)
    });
    WAITED.set((count, known.unwrap_or(0)));
}

/// A handle of an array, of the width that handles have in the program's ABI.
///
/// # Safety
///
/// The array has it.
unsafe fn handle(array: *const usize, index: usize) -> u64 {
    let wide = WATCH.get().is_some_and(|watch| watch.abi.wide);
    match wide {
        // SAFETY: the caller's promise.
        true => unsafe { array.add(index).read() as u64 },
        // SAFETY: the caller's promise.
        false => u64::from(unsafe { array.cast::<u32>().add(index).read() }),
    }
}

fn place(handle: u64) -> usize {
    (handle.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 52) as usize % REQUESTS
}

/// The program gives a communicator a name.
pub fn named(comm: Handle, name: *const libc::c_char) {
    if !WATCHING.load(Ordering::Relaxed) || name.is_null() {
        return;
    }
    // SAFETY: the program's name, a C string.
    let name = unsafe { std::ffi::CStr::from_ptr(name) };
    COMMS.lock().insert(comm, clean(&name.to_string_lossy()));
}

/// The program frees a communicator, so that another may get its handle.
pub fn freed(comm: *const usize) {
    if WATCHING.load(Ordering::Relaxed) && !comm.is_null() {
        // SAFETY: the program gives the place of a handle.
        let handle = unsafe { handle(comm, 0) };
        COMMS.lock().remove(&(handle as Handle));
    }
}

/// A text without what ends a field.
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
        // SAFETY: the place has the room that is said.
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

    /// Sends what is so now.
    fn tell(&self) {
        let text = self.text();
        for (socket, addresses) in &self.sockets {
            for address in addresses {
                // Not every address leads there from every host.
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

    /// A call: the function, for how long, and whom it is with.
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
            // Whom the others are with isn't known, so that nobody in particular is waited for.
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

    /// "from 3", the rank of MPI_COMM_WORLD if it is one, the tag, the communicator.
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
