//! The contacted peers of a lane: an endpoint per VCI, and the state of each process.
//!
//! Only contacted peers use memory. Both are numbered in the order of their first contact.

use netmod::{LaneError, Peer, VciId};

use crate::peer_table::{NumberMap, PeerTable};

/// A lane's endpoint to a VCI of a process.
pub trait Endpoint {
    /// Returns the index of the process.
    fn process(&self) -> u32;
}

/// State of a contacted process.
pub struct Process<P> {
    /// The process's number in the job.
    pub number: Peer,
    /// Why the process is lost.
    pub lost: Option<String>,
    /// The transport's own state.
    pub state: P,
}

impl<P> Process<P> {
    /// Returns the error of an operation with a lost process.
    #[cold]
    pub fn error(&self) -> LaneError {
        LaneError::lost(self.number, self.lost.clone().unwrap_or_default())
    }
}

/// All contacted peers of a lane.
pub struct Peers<E, P> {
    /// The endpoints, in the order of first contact.
    pub endpoints: Vec<E>,
    /// The processes, in the order of first contact.
    pub processes: Vec<Process<P>>,
    /// Index of each endpoint plus 1; 0: none.
    indices: PeerTable<u32>,
    by_number: NumberMap<Peer, u32>,
}

impl<E: Endpoint, P: Default> Peers<E, P> {
    /// Makes an empty table that is fast for VCIs of number `own`.
    pub fn new(own: VciId) -> Self {
        Peers {
            endpoints: Vec::new(),
            processes: Vec::new(),
            indices: PeerTable::new(own),
            by_number: NumberMap::default(),
        }
    }

    /// Returns the index of a VCI's endpoint if it has been contacted.
    #[inline]
    pub fn find(&mut self, peer: Peer, vci: VciId) -> Option<u32> {
        self.indices.find(peer, vci)?.checked_sub(1)
    }

    /// Returns the index of a process if it has been contacted.
    pub fn find_process(&self, number: Peer) -> Option<u32> {
        self.by_number.get(&number).copied()
    }

    /// Returns the index of a process, adding it if necessary.
    pub fn process(&mut self, number: Peer) -> u32 {
        *self.by_number.entry(number).or_insert_with(|| {
            self.processes.push(Process {
                number,
                lost: None,
                state: P::default(),
            });
            self.processes.len() as u32 - 1
        })
    }

    /// Adds the endpoint of a VCI. Returns its index, which is the count of earlier ones.
    pub fn add(&mut self, number: Peer, vci: VciId, endpoint: E) -> u32 {
        let index = self.endpoints.len() as u32;
        *self.indices.get(number, vci) = index + 1;
        self.endpoints.push(endpoint);
        index
    }

    /// Returns an endpoint by its index.
    #[inline]
    pub fn endpoint(&mut self, index: u32) -> &mut E {
        &mut self.endpoints[index as usize]
    }

    /// Returns the process of an endpoint.
    #[inline]
    pub fn process_of(&mut self, endpoint: u32) -> &mut Process<P> {
        let process = self.endpoints[endpoint as usize].process();
        &mut self.processes[process as usize]
    }

    /// Lists the indices of a process's endpoints.
    pub fn endpoints_of(&self, process: u32) -> Vec<u32> {
        let all = self.endpoints.iter().enumerate();
        all.filter(|(_, endpoint)| endpoint.process() == process)
            .map(|(index, _)| index as u32)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Of(u32);

    impl Endpoint for Of {
        fn process(&self) -> u32 {
            self.0
        }
    }

    #[test]
    fn endpoints_belong_to_processes() {
        let mut peers = Peers::<Of, ()>::new(1);
        assert_eq!((peers.find(7, 1), peers.find_process(7)), (None, None));
        for (place, (number, vci)) in [(7, 1), (9, 1), (7, 2)].into_iter().enumerate() {
            let process = peers.process(number);
            assert_eq!(peers.add(number, vci, Of(process)), place as u32);
        }
        assert_eq!((peers.find(7, 2), peers.find(9, 2)), (Some(2), None));
        assert_eq!((peers.find_process(9), peers.processes.len()), (Some(1), 2));
        assert_eq!(peers.endpoints_of(0), [0, 2]);
        peers.process_of(1).lost = Some("gone".to_string());
        assert_eq!(peers.process_of(1).error(), LaneError::lost(9, "gone"));
    }
}
