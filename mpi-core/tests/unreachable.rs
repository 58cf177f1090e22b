//! A peer that no transport reaches.

use std::sync::Arc;

use mpi_core::error::Class;
use mpi_core::process::source::Sources;
use mpi_core::process::{
    Config, CriticalSections, Destination, Mode, OneAtATime, Process, Router, Source, Threads,
};
use mpi_core::pt2pt::buffer::Buffer;
use mpi_core::wait::WaitPolicy;
use netmod::{OpenError, Peer};

struct Nowhere;

impl Router for Nowhere {
    fn route(&self, peer: Peer) -> Result<usize, OpenError> {
        Err(OpenError(format!("there is no process {peer}")))
    }
}

#[test]
fn an_unreachable_peer_counts_as_lost() {
    let process = Process::new(Config {
        me: 0,
        transports: Vec::new(),
        router: Arc::new(Nowhere),
        wait: WaitPolicy::for_share(1, 1),
        clock: None,
        watch: None,
        eager_limit: None,
        window: 5000,
        max_vcis: 1,
        // SAFETY: only this thread uses the process.
        threads: Threads::One(unsafe { OneAtATime::promise() }),
        critical: CriticalSections::default(),
        request_caches: true,
        nodes: Vec::new(),
        shared_memory: None,
        sources: Sources::default(),
    })
    .unwrap();
    let (context, owner, peer, tag) = (8, 0, 1, 5);
    // Like a collective: posts a receive from the peer, and fails to send to it.
    let from = Source {
        context,
        rank: 1,
        tag,
        owner,
        peer,
    };
    let receive = process.irecv(0, &from, Buffer::EMPTY).unwrap();
    let to = Destination {
        peer,
        vci: 0,
        context,
        rank: 0,
        tag,
        owner,
    };
    let sent = process.isend(0, &to, Buffer::EMPTY, Mode::Standard);
    let error = match sent {
        Ok(Some(id)) => process.wait(id).unwrap().1.unwrap(),
        sent => sent.map(|_| ()).unwrap_err(),
    };
    assert_eq!(error.class(), Class::ProcFailed, "{error}");
    assert!(
        error.to_string().contains("there is no process 1"),
        "{error}"
    );
    let error = process.wait(receive).unwrap().1.unwrap();
    assert_eq!(error.class(), Class::ProcFailed, "{error}");
    assert!(process.loss_among(|member| member == peer).is_some());
}
