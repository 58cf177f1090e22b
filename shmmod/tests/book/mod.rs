//! Processes simulated by lanes of this one, and their address book.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use netmod::{Lane, OpenError, Peer, Resolver, Transport, VciId};
use shmmod::{Config, Shm, SingleCopy};

#[derive(Clone, Default)]
struct Book(Arc<Mutex<HashMap<Peer, Vec<u8>>>>);

impl Resolver for Book {
    fn resolve(&self, peer: Peer, _vci: VciId) -> Result<Vec<u8>, OpenError> {
        let found = self.0.lock().unwrap().get(&peer).cloned();
        found.ok_or_else(|| OpenError(format!("there is no process {peer}")))
    }
}

/// Opens the lanes of processes 0 to `N - 1`, with their transports.
pub fn lanes<const N: usize>(single_copy: SingleCopy) -> ([Box<dyn Lane>; N], [Shm; N]) {
    let book = Book::default();
    let opened: Vec<(Box<dyn Lane>, Shm)> = (0..N as Peer)
        .map(|me| {
            let shm = Shm::open(Config { me, single_copy }, Arc::new(book.clone()));
            let lane = shm.open_lane(0).unwrap();
            book.0.lock().unwrap().insert(me, shm.address(0));
            (lane, shm)
        })
        .collect();
    let (lanes, transports): (Vec<_>, Vec<_>) = opened.into_iter().unzip();
    let lanes = lanes.try_into().unwrap_or_else(|_| panic!("{N} lanes"));
    let transports = transports.try_into();
    (
        lanes,
        transports.unwrap_or_else(|_| panic!("{N} transports")),
    )
}
