//! Connections with other jobs: their numbers and transports, from creation to end.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use netmod::{OpenError, Peer, Transport, VciId};
use netmod_kit::bridge::{Bridge, Numbers};

use super::{Block, Directory, Foreign, ForeignPeer, Member, Pin};
use crate::process::Process;
use crate::pt2pt::context::ContextId;
use crate::vci::{Vci, VciSlot};

/// A connection that is being created.
pub struct PendingConnection<'a> {
    process: &'a Process,
    connection: ContextId,
    numbers: Numbers,
    own: Peer,
    node: u64,
    routes: Vec<(usize, &'static str)>,
    directory: Arc<Directory>,
    is_complete: bool,
}

impl Foreign {
    /// Returns the transport of a route, counted without those of the own job.
    pub(crate) fn transport(&self, route: usize) -> Option<Arc<dyn Transport>> {
        self.state.lock().transports.get(route).cloned().flatten()
    }

    /// Returns all transports to other jobs with their routes.
    pub(crate) fn transports(&self) -> Vec<(usize, Arc<dyn Transport>)> {
        let state = self.state.lock();
        let all = state.transports.iter().enumerate();
        all.filter_map(|(route, transport)| Some((route, transport.clone()?)))
            .collect()
    }

    /// Returns the transports to other jobs, with the names by which peers know them.
    pub fn named_transports(&self) -> Vec<(String, Arc<dyn Transport>)> {
        let state = self.state.lock();
        let of = |route: &usize| state.transports.get(*route).cloned().flatten();
        let of_block = |block: &Block| {
            let tag = block.connection.to_bits();
            let routes = block.routes.iter().filter_map(of);
            routes
                .map(|one| (format!("{}#{tag:x}", one.name()), one))
                .collect::<Vec<_>>()
        };
        state.blocks.iter().flat_map(of_block).collect()
    }

    /// Returns the route to a process of another job.
    pub(crate) fn route(&self, peer: Peer) -> Result<usize, OpenError> {
        let gone = || OpenError("the connection with its job has ended".to_string());
        let mut state = self.state.lock();
        let known = self.index_of(peer).and_then(|index| state.peer_mut(index));
        known
            .filter(|known| !known.has_parted)
            .map(|known| known.route)
            .ok_or_else(gone)
    }

    /// Records the address of a VCI of a connected process.
    pub(crate) fn learn(&self, peer: Peer, vci: VciId, transport: &str, address: &[u8]) {
        let mut state = self.state.lock();
        let Some(connection) = self
            .index_of(peer)
            .and_then(|index| state.peer_mut(index))
            .map(|known| known.connection)
        else {
            return;
        };
        let block = state.block(connection);
        if let (Some(block), Some((name, tag))) = (block, transport.split_once('#'))
            && tag == format!("{:x}", connection.to_bits())
        {
            let member = block.numbers.inside(peer);
            block.directory.note(member, vci, name, address);
        }
    }

    /// Takes the first free block of numbers for a connection, in which this process is number
    /// `own` and the peers are the `count` numbers from `inner` on.
    fn take_numbers(
        &self,
        connection: ContextId,
        own: Peer,
        (inner, count): (Peer, u32),
        directory: &Arc<Directory>,
    ) -> Numbers {
        // Searched and taken under one lock, since other threads may connect.
        let mut state = self.state.lock();
        let mut taken: Vec<(u32, u32)> = state
            .blocks
            .iter()
            .map(|block| (block.numbers.outer, block.numbers.count))
            .collect();
        taken.sort_unstable();
        let mut start = 0;
        for (first, many) in taken {
            let first = first - self.own_size();
            if start + count <= first {
                break;
            }
            start = first + many;
        }
        let numbers = Numbers {
            outer: self.own_size() + start,
            inner,
            count,
        };
        state.connected = true;
        state.blocks.push(Block {
            connection,
            numbers,
            own,
            is_complete: false,
            left: 0,
            routes: Vec::new(),
            directory: directory.clone(),
        });
        numbers
    }
}

impl Process {
    /// Creates a context for a connection. From now on contexts of this process carry its mark.
    pub fn connecting_context(&self) -> ContextId {
        self.foreign().state.lock().connected = true;
        self.new_context()
    }

    /// Begins a connection in which this process is number `own` on node `node`, and the peers are
    /// the `count` numbers from `first` on.
    pub fn begin_connection(
        &self,
        connection: ContextId,
        own: Peer,
        first: Peer,
        count: u32,
        node: u64,
    ) -> PendingConnection<'_> {
        let directory: Arc<Directory> = Arc::default();
        let numbers = self
            .foreign()
            .take_numbers(connection, own, (first, count), &directory);
        PendingConnection {
            process: self,
            connection,
            numbers,
            own,
            node,
            routes: Vec::new(),
            directory,
            is_complete: false,
        }
    }

    /// Records that a process of another job has parted, so that no more messages pass. Ends the
    /// connection with its last process.
    pub fn part(&self, peer: Peer) {
        let foreign = self.foreign();
        let mut state = foreign.state.lock();
        let Some(known) = foreign
            .index_of(peer)
            .and_then(|index| state.peer_mut(index))
            .filter(|known| !known.has_parted)
        else {
            return;
        };
        known.has_parted = true;
        let connection = known.connection;
        foreign.connected_peers.fetch_sub(1, Ordering::Relaxed);
        foreign
            .neighbours
            .fetch_sub(known.is_local.into(), Ordering::Relaxed);
        self.count_neighbours();
        let Some(block) = state.block(connection) else {
            return;
        };
        block.left -= 1;
        let over = block.left == 0;
        drop(state);
        if over {
            self.end_connection(connection);
        }
    }

    /// Closes the transports of a connection and frees its numbers.
    fn end_connection(&self, connection: ContextId) {
        let foreign = self.foreign();
        // Excludes VCIs that are being opened, which would get the lanes again.
        let _one_at_a_time = self.opening.lock();
        let mut state = foreign.state.lock();
        let Some(at) = state
            .blocks
            .iter()
            .position(|block| block.connection == connection)
        else {
            return;
        };
        let (numbers, routes) = {
            let block = &state.blocks[at];
            (block.numbers, block.routes.clone())
        };
        let closed: Vec<_> = routes
            .iter()
            .filter_map(|route| state.transports[*route].take())
            .collect();
        drop(state);
        for slot in self.vcis.iter().filter_map(VciSlot::get) {
            let Some(mut vci) = slot.visit_blocking() else {
                continue;
            };
            for peer in numbers.outer..numbers.outer + numbers.count {
                vci.forget_peer(peer);
            }
            // Under the lock and before the removal: a thread that sleeps on a descriptor of this
            // VCI's lane has seen fewer closings.
            foreign.closings.fetch_add(1, Ordering::SeqCst);
            for route in &routes {
                vci.remove_route(self.transports.len() + route);
            }
        }
        drop(closed);
        self.forget_losses(numbers.outer..numbers.outer + numbers.count);
        let mut state = foreign.state.lock();
        state.blocks.retain(|block| block.connection != connection);
        for peer in numbers.outer..numbers.outer + numbers.count {
            if let Some(index) = foreign.index_of(peer)
                && let Some(known) = state.peers.get_mut(index)
            {
                *known = None;
            }
        }
        while state.peers.last().is_some_and(Option::is_none) {
            state.peers.pop();
        }
        while state.transports.last().is_some_and(Option::is_none) {
            state.transports.pop();
        }
    }
}

impl PendingConnection<'_> {
    /// Returns the addresses of the members.
    pub fn directory(&self) -> &Arc<Directory> {
        &self.directory
    }

    /// Opens a transport of the connection on all open VCIs.
    ///
    /// # Errors
    /// If the transport cannot be opened.
    pub fn add(&mut self, transport: Arc<dyn Transport>) -> Result<(), OpenError> {
        let process = self.process;
        let name = transport.name();
        let bridge: Arc<dyn Transport> = Arc::new(Bridge::new(transport, self.numbers));
        let _one_at_a_time = process.opening.lock();
        let foreign = process.foreign();
        let mut state = foreign.state.lock();
        let route = match state.transports.iter().position(Option::is_none) {
            Some(route) => route,
            None => {
                state.transports.push(None);
                state.transports.len() - 1
            }
        };
        if process.transports.len() + route >= usize::from(u16::MAX) {
            return Err(OpenError("too many connections between jobs".to_string()));
        }
        state.transports[route] = Some(bridge.clone());
        if let Some(block) = state.block(self.connection) {
            block.routes.push(route);
        }
        drop(state);
        self.routes.push((route, name));
        for number in process.open_vcis() {
            // A VCI that a thread uses exclusively does not get the route.
            if let Some(mut vci) = process
                .vcis
                .get(usize::from(number))
                .and_then(VciSlot::get)
                .and_then(Vci::visit_blocking)
            {
                vci.add_route(
                    process.transports.len() + route,
                    &bridge,
                    process.eager_limit,
                )?;
            }
        }
        Ok(())
    }

    /// Returns the addresses of VCI 0 with the names of the transports.
    pub fn addresses(&self) -> Vec<(&'static str, Vec<u8>)> {
        let foreign = self.process.foreign();
        let routes = self.routes.iter();
        routes
            .filter_map(|(route, name)| Some((*name, foreign.transport(*route)?.address(0))))
            .collect()
    }

    /// Returns the names of the transports.
    pub fn names(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.routes.iter().map(|(_, name)| *name)
    }

    /// Adds a member, which is reached by the named transport.
    pub fn join(&self, number: Peer, member: Member, transport: &str) -> Option<Pin> {
        let (route, _) = self.routes.iter().find(|(_, name)| *name == transport)?;
        self.join_by(number, member, *route)
    }

    /// Adds a member, which is reached by transport number `route`.
    pub(super) fn join_by(&self, number: Peer, member: Member, route: usize) -> Option<Pin> {
        let peer = self.numbers.outside(number)?;
        let foreign = self.process.foreign();
        let index = foreign.index_of(peer)?;
        let mut state = foreign.state.lock();
        if state.peers.len() <= index {
            state.peers.resize_with(index + 1, || None);
        }
        state.peers[index] = Some(ForeignPeer {
            member,
            is_local: member.node == self.node,
            route,
            connection: self.connection,
            owners: Vec::new(),
            pins: 1,
            is_chosen: false,
            is_parting: false,
            has_parted: false,
        });
        if let Some(block) = state.block(self.connection) {
            block.left += 1;
        }
        foreign.connected_peers.fetch_add(1, Ordering::Relaxed);
        foreign
            .neighbours
            .fetch_add((member.node == self.node).into(), Ordering::Relaxed);
        self.process.count_neighbours();
        Some(Pin::holding(foreign, peer, self.connection))
    }

    /// Returns this process's number in the connection.
    pub fn own(&self) -> Peer {
        self.own
    }

    /// Completes the connection, which from now on ends when all members have parted.
    pub fn keep(mut self) {
        self.is_complete = true;
        let mut state = self.process.foreign().state.lock();
        if let Some(block) = state.block(self.connection) {
            block.is_complete = true;
        }
    }
}

impl Drop for PendingConnection<'_> {
    fn drop(&mut self) {
        if self.is_complete {
            return;
        }
        let foreign = self.process.foreign();
        let (mut members, mut here) = (0, 0);
        for known in foreign.state.lock().peers.iter().flatten() {
            if known.connection == self.connection && !known.has_parted {
                members += 1;
                here += u32::from(known.is_local);
            }
        }
        foreign
            .connected_peers
            .fetch_sub(members, Ordering::Relaxed);
        foreign.neighbours.fetch_sub(here, Ordering::Relaxed);
        self.process.count_neighbours();
        self.process.end_connection(self.connection);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn concurrent_connections_get_disjoint_numbers() {
        const THREADS: u32 = 8;
        for _ in 0..200 {
            let foreign = Foreign::default();
            foreign.size.store(3, Ordering::Relaxed);
            let all_there = std::sync::Barrier::new(THREADS as usize);
            let mut taken: Vec<u32> = std::thread::scope(|scope| {
                let one = |thread| {
                    all_there.wait();
                    let connection = ContextId::new(1 << 31, thread);
                    let numbers = |_| {
                        let directory = Arc::default();
                        foreign.take_numbers(connection, 0, (0, 2), &directory)
                    };
                    (0..4)
                        .map(numbers)
                        .map(|numbers| numbers.outer)
                        .collect::<Vec<_>>()
                };
                let threads: Vec<_> = (0..THREADS)
                    .map(|thread| scope.spawn(move || one(thread)))
                    .collect();
                threads
                    .into_iter()
                    .flat_map(|thread| thread.join().expect("a thread"))
                    .collect()
            });
            taken.sort_unstable();
            let expected: Vec<u32> = (0..4 * THREADS).map(|index| 3 + 2 * index).collect();
            assert_eq!(taken, expected);
        }
    }
}
