//! Processes of real threads over the real shared-memory transport, and a watchdog.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use mpi_core::process::source::Sources;
use mpi_core::process::{Config, CriticalSections, Process, Router, Threads};
use mpi_core::wait::WaitPolicy;
use netmod::{OpenError, Peer, Resolver, Transport, VciId};

const LIMIT: Duration = Duration::from_secs(100);

/// Aborts the test program if a test hangs.
pub struct Watchdog(Arc<AtomicBool>);

impl Watchdog {
    pub fn new(test: &'static str) -> Self {
        let ended = Arc::new(AtomicBool::new(false));
        let seen = ended.clone();
        thread::spawn(move || {
            let start = Instant::now();
            while start.elapsed() < LIMIT {
                thread::sleep(Duration::from_millis(100));
                if seen.load(Ordering::Relaxed) {
                    return;
                }
            }
            eprintln!("{test} does not end");
            std::process::abort();
        });
        Watchdog(ended)
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

type Addresses = HashMap<(Peer, VciId), Vec<u8>>;

/// The addresses of all VCIs of all processes.
#[derive(Clone, Default)]
pub struct Book(Arc<Mutex<Addresses>>);

impl Resolver for Book {
    fn resolve(&self, peer: Peer, vci: VciId) -> Result<Vec<u8>, OpenError> {
        let found = self.0.lock().unwrap().get(&(peer, vci)).cloned();
        found.ok_or_else(|| OpenError(format!("process {peer} has no VCI {vci}")))
    }
}

struct First;

impl Router for First {
    fn route(&self, _peer: Peer) -> Result<usize, OpenError> {
        Ok(1)
    }
}

/// Creates a process with `vcis` open VCIs and adds their addresses to the book.
pub fn process(book: &Book, me: Peer, vcis: u16, single_copy: bool) -> Process {
    process_of(Threads::Many, book, me, vcis, single_copy)
}

/// Makes a process as [`process`] does, with the given rule for calls of several threads.
pub fn process_of(
    threads: Threads,
    book: &Book,
    me: Peer,
    vcis: u16,
    single_copy: bool,
) -> Process {
    let single_copy = single_copy.into();
    let config = shmmod::Config { me, single_copy };
    let shm = Arc::new(shmmod::Shm::open(config, Arc::new(book.clone())));
    let process = Process::new(Config {
        me,
        transports: vec![shm.clone()],
        router: Arc::new(First),
        wait: WaitPolicy::for_share(8, 2),
        clock: None,
        watch: None,
        eager_limit: Some(1000),
        window: 10_000,
        max_vcis: usize::from(vcis),
        threads,
        critical: CriticalSections::default(),
        request_caches: true,
        nodes: Vec::new(),
        shared_memory: None,
        sources: Sources::default(),
    })
    .unwrap();
    for vci in 0..vcis {
        process.open_vci(vci).unwrap();
        book.0.lock().unwrap().insert((me, vci), shm.address(vci));
    }
    process
}
