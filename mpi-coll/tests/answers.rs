//! Ranks over shared memory that answer differently whether the kernel's copy is cheap: all choose
//! the same executors, so that every call ends with the right data.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use mpi_coll::{Buffers, Call, Root, call};
use mpi_core::comm::{Comm, ContextId};
use mpi_core::datatype::{Datatype, Predefined};
use mpi_core::group::Group;
use mpi_core::process::source::Sources;
use mpi_core::process::{Config, CriticalSections, Process, Router, Threads};
use mpi_core::wait::WaitPolicy;
use mpi_sched::{Layout, Part};
use netmod::{OpenError, Peer, RemoteKey, Resolver, SharedMemory, SharedSegment, Transport, VciId};
use shmmod::{SharedSegments, Shm, SingleCopy};

/// Calls of each kind; slots are made within them.
const CALLS: usize = 8;
/// Bytes of a block, in the range in which the answer counts.
const BLOCK: usize = 64 << 10;

/// The shared memory of a rank that gives this answer.
struct Answering(bool);

impl SharedMemory for Answering {
    fn create(&self, len: usize) -> Result<Box<dyn SharedSegment>, OpenError> {
        SharedSegments.create(len)
    }

    fn commits_lazily(&self, len: usize) -> Result<bool, OpenError> {
        SharedSegments.commits_lazily(len)
    }

    fn prefers_direct_copy(&self) -> bool {
        self.0
    }

    fn open(&self, key: &RemoteKey, len: usize) -> Result<Box<dyn SharedSegment>, OpenError> {
        SharedSegments.open(key, len)
    }
}

/// Routes to the only transport besides the loopback.
struct OnlyTransport;

impl Router for OnlyTransport {
    fn route(&self, _peer: Peer) -> Result<usize, OpenError> {
        Ok(1)
    }
}

/// The addresses of all ranks.
#[derive(Clone, Default)]
struct Book(Arc<Mutex<HashMap<Peer, Vec<u8>>>>);

impl Resolver for Book {
    fn resolve(&self, peer: Peer, _vci: VciId) -> Result<Vec<u8>, OpenError> {
        let found = self.0.lock().unwrap().get(&peer).cloned();
        found.ok_or_else(|| OpenError(format!("there is no process {peer}")))
    }
}

fn process(book: &Book, me: Peer, ranks: usize, answer: bool) -> Process {
    let single_copy = SingleCopy::Auto;
    let shm = Arc::new(Shm::open(
        shmmod::Config { me, single_copy },
        Arc::new(book.clone()),
    ));
    let process = Process::new(Config {
        me,
        transports: vec![shm.clone()],
        router: Arc::new(OnlyTransport),
        wait: WaitPolicy::for_share(ranks, ranks),
        clock: None,
        watch: None,
        eager_limit: None,
        window: 1 << 20,
        max_vcis: 1,
        threads: Threads::Many,
        critical: CriticalSections::default(),
        request_caches: true,
        nodes: Vec::new(),
        shared_memory: Some(Arc::new(Answering(answer))),
        sources: Sources::default(),
    })
    .unwrap();
    book.0.lock().unwrap().insert(me, shm.address(0));
    process
}

/// Broadcasts, gathers and exchanges blocks, and checks what arrives.
fn communicate(process: &Process, rank: u32, ranks: u32) {
    let comm = Comm::new(ContextId::new(0, 1), Group::identity(ranks), rank);
    let bytes = Datatype::predefined(Predefined::Byte);
    let part = Part {
        count: BLOCK,
        datatype: &bytes,
    };
    let layout = Layout::Uniform(part);
    for number in 0..CALLS {
        let root = number as u32 % ranks;
        let of = |rank: u32| (number as u32 * 16 + rank + 1) as u8;
        let send = vec![of(rank); BLOCK * ranks as usize];
        let mut recv = vec![0_u8; BLOCK * ranks as usize];
        let run = |call_: &Call<'_>, recv: &mut [u8]| {
            let buffers = Buffers {
                send: send.as_ptr(),
                recv: recv.as_mut_ptr(),
            };
            // SAFETY: both buffers have a block for each rank, and live until the call ends.
            unsafe { call(process, &comm, buffers, call_) }.unwrap();
        };
        let bcast = Call::Bcast(Root::Rank(root), part);
        recv[..BLOCK].fill(if root == rank { of(rank) } else { 0 });
        run(&bcast, &mut recv);
        assert!(recv[..BLOCK].iter().all(|byte| *byte == of(root)));
        let allgather = Call::Allgather(Some(part), layout);
        let alltoall = Call::Alltoall(Some(layout), layout);
        for call in [allgather, alltoall] {
            recv.fill(0);
            run(&call, &mut recv);
            for (from, block) in recv.chunks(BLOCK).enumerate() {
                assert!(block.iter().all(|byte| *byte == of(from as u32)));
            }
        }
    }
}

#[test]
fn ranks_with_different_answers_choose_alike() {
    for answers in [
        &[true, true][..],
        &[false, false],
        &[true, false],
        &[false, true],
        &[true, false, true],
        &[false, true, true],
    ] {
        let book = Book::default();
        let ranks = answers.len();
        let processes: Vec<Box<Process>> = (0..ranks)
            .map(|rank| Box::new(process(&book, rank as Peer, ranks, answers[rank])))
            .collect();
        let (ended, watch) = mpsc::channel();
        for (rank, process) in processes.into_iter().enumerate() {
            let ended = ended.clone();
            std::thread::spawn(move || {
                communicate(&process, rank as u32, ranks as u32);
                ended.send(process)
            });
        }
        drop(ended);
        // The processes live until all have ended.
        let all: Vec<_> = (0..ranks)
            .map(|_| watch.recv_timeout(Duration::from_secs(100)))
            .collect();
        assert!(
            all.iter().all(Result::is_ok),
            "{answers:?}: a rank failed or waits for ever"
        );
    }
}
