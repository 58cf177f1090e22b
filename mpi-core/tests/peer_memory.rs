//! The memory that a peer without traffic costs, measured in a process with a million peers.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use mpi_core::comm::{Comm, ContextId};
use mpi_core::group::Group;
use mpi_core::process::source::Sources;
use mpi_core::process::{Config, CriticalSections, OneAtATime, Process, Router, Threads};
use mpi_core::wait::WaitPolicy;
use netmod::{OpenError, Peer, Resolver, VciId};
use netmod_kit::PeerTable;

struct Counting;

static HELD: AtomicUsize = AtomicUsize::new(0);

// SAFETY: forwards all calls to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        HELD.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller keeps `GlobalAlloc`'s contract for `layout`, which is passed on.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller keeps `GlobalAlloc`'s contract for `ptr` and `layout`, which are
        // passed on.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// A router and resolver without peers.
struct Nobody;

impl Router for Nobody {
    fn route(&self, peer: Peer) -> Result<usize, OpenError> {
        Err(OpenError(format!("process {peer} is only counted")))
    }
    fn learn(&self, _: Peer, _: VciId, _: &str, _: &[u8]) {}
}

impl Resolver for Nobody {
    fn resolve(&self, _: Peer, _: VciId) -> Result<Vec<u8>, OpenError> {
        Err(OpenError("there is nobody".to_string()))
    }
}

fn held_by<T>(make: impl FnOnce() -> T) -> (usize, T) {
    let before = HELD.load(Ordering::Relaxed);
    let made = make();
    (HELD.load(Ordering::Relaxed) - before, made)
}

/// Creates a process of a job of `size` ranks, with its world and one duplicate. Returns the bytes
/// that it holds.
fn process(size: u32) -> (usize, impl Sized) {
    held_by(|| {
        let shm = shmmod::Config {
            me: 0,
            single_copy: true.into(),
        };
        let process = Process::new(Config {
            me: 0,
            transports: vec![Arc::new(shmmod::Shm::open(shm, Arc::new(Nobody)))],
            router: Arc::new(Nobody),
            wait: WaitPolicy::for_share(64, 64),
            clock: None,
            watch: None,
            eager_limit: None,
            window: 1 << 20,
            max_vcis: 64,
            // SAFETY: each process is used by one thread.
            threads: Threads::One(unsafe { OneAtATime::promise() }),
            critical: CriticalSections::default(),
            request_caches: true,
            nodes: (0..size).map(|rank| rank / 64).collect(),
            shared_memory: None,
            sources: Sources::default(),
        })
        .unwrap();
        let world = Comm::new(ContextId::new(0, 0), Group::identity(size), 0);
        let other = Comm::new(ContextId::new(0, 2), Group::identity(size), 0);
        // Traffic with the last peer makes tables that are indexed by peer reach their full size.
        let mut streams = PeerTable::<[u32; 3]>::new(0);
        streams.get(size - 1, 0)[0] = 1;
        let mut remotes = PeerTable::<Option<Box<u64>>>::new(0);
        *remotes.get(size - 1, 0) = Some(Box::new(1));
        (process, world, other, streams, remotes)
    })
}

#[test]
fn a_peer_without_traffic_costs_at_most_16_bytes() {
    const MANY: u32 = 1_000_000;
    let (few, _kept) = process(2);
    let (many, _kept_too) = process(MANY);
    let each = (many - few) as f64 / f64::from(MANY);
    println!(
        "{few} bytes in a job of 2, {many} in one of {MANY}: {each:.2} bytes for each peer never \
         talked to"
    );
    assert!(each <= 16.0, "{each} bytes");
}
