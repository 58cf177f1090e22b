//! Streams: VCIs that a program takes for itself, one for each of its serial contexts (a thread,
//! say), and communicators whose messages go from one stream to another.
//!
//! They are an extension of MPICH (`MPIX_Stream_create` …). A communicator with streams is one with
//! endpoints, one per process: a rank's messages arrive at the VCI of its stream. If a process has
//! several streams there are *planes*: in plane `n` each rank is at its `n`-th stream, in context
//! `n` of the communicator's block, so that a receive at one stream never matches a message to
//! another.

use std::any::Any;
use std::sync::Arc;

use netmod::VciId;

use crate::creation::endpoints::{MAX_ENDPOINTS, gather_vcis};
use mpi_core::comm::endpoint_table::{EndpointAddress, EndpointTable};
use mpi_core::comm::{Comm, ContextId};
use mpi_core::error::{Class, Error, Result};
use mpi_core::process::Process;
use mpi_core::vci::pool::Users;

/// A VCI that a program has for itself, until this is dropped.
pub struct Stream {
    vci: VciId,
    users: Arc<Users>,
}

impl Stream {
    /// Takes a free VCI.
    ///
    /// # Errors
    /// `MPI_ERR_OTHER` if all are in use, or it can't be opened.
    pub fn new(process: &Process) -> Result<Stream> {
        let users = process.users().clone();
        let Some(vci) = users.take_free() else {
            let why = format!(
                "all {} VCIs are in use; free a stream, or raise WEFT_NUM_VCIS",
                process.pool()
            );
            return Err(Error::new(Class::Other, why));
        };
        let stream = Stream { vci, users };
        process
            .open_vci(vci)
            .map_err(|error| Error::new(Class::Other, error.to_string()))?;
        Ok(stream)
    }

    /// Its VCI.
    pub fn vci(&self) -> VciId {
        self.vci
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.users.give_back(&[self.vci]);
    }
}

/// The communicators between the streams of a communicator's members.
pub struct StreamComms {
    /// Number of streams of each rank.
    counts: Box<[u32]>,
    /// For each plane, a communicator for each stream of this process, which sends from it.
    comms: Box<[Comm]>,
    own: usize,
}

impl StreamComms {
    /// Number of streams of a rank.
    pub fn count(&self, rank: u32) -> u32 {
        self.counts[rank as usize]
    }

    /// Returns the communicator that sends from the stream `from` of this process to the streams
    /// `to` of others.
    ///
    /// With both the same, it receives at that stream. `None` if there are no such streams.
    pub fn between(&self, from: u32, to: u32) -> Option<&Comm> {
        let from = from as usize;
        let place = (to as usize).checked_mul(self.own)?.checked_add(from)?;
        self.comms.get(place).filter(|_| from < self.own)
    }

    /// The communicators with the numbers of their planes.
    fn by_plane(&self) -> impl Iterator<Item = (u32, &Comm)> {
        self.comms
            .chunks(self.own.max(1))
            .zip(0..)
            .flat_map(|(comms, plane)| comms.iter().map(move |comm| (plane, comm)))
    }

    /// Makes the communicators of a duplicate, whose block of contexts begins with `context`.
    pub fn duplicate_in(&self, context: ContextId) -> StreamComms {
        let comms = self.by_plane();
        StreamComms {
            counts: self.counts.clone(),
            comms: comms
                .map(|(plane, comm)| comm.duplicate_in(context.plus(plane)))
                .collect(),
            own: self.own,
        }
    }

    /// Sets the contexts of [`StreamComms::duplicate_in`] that were unknown so far ([`ContextId::UNKNOWN`]).
    pub fn learn_contexts(&self, context: ContextId) {
        for (plane, comm) in self.by_plane() {
            comm.learn_context(context.plus(plane));
        }
    }

    /// Sets the owner that requests carry.
    pub fn set_owner(&self, owner: u32) {
        for comm in &self.comms {
            comm.set_owner(owner);
        }
    }
}

/// Makes a communicator of the same processes whose messages go by streams; collective over the
/// intracommunicator `comm`, each process with its own streams.
///
/// `None` among the streams stands for VCI 0. Functions that name no stream use the first.
///
/// # Errors
/// `MPI_ERR_COMM` for an intercommunicator and one with endpoints or streams.
pub fn create(
    process: &Process,
    comm: &Comm,
    streams: &[Option<Arc<Stream>>],
) -> Result<(Comm, StreamComms)> {
    if comm.has_endpoints() {
        comm.check_plain("MPIX_Stream_comm_create")?;
    }
    if comm.remote().is_some() {
        let why = "the communicator is an intercommunicator; streams are for intracommunicators";
        return Err(Error::new(Class::Comm, why));
    }
    let vcis: Vec<VciId> = streams
        .iter()
        .map(|stream| stream.as_ref().map_or(0, |stream| stream.vci))
        .collect();
    let own = vcis.len();
    let received = mpi_coll::gather_all_u64(process, comm, [own as u64])?;
    let counts: Box<[u32]> = received.iter().map(|received| received[0] as u32).collect();
    // A member without streams has an address in the first plane, for calls that name no stream.
    let planes = counts.iter().copied().max().unwrap_or(0).max(1);
    if planes > MAX_ENDPOINTS {
        let why = format!("internal error: a member announced {planes} streams");
        return Err(Error::new(Class::Intern, why));
    }
    let (context, all) = gather_vcis(process, comm, &vcis, &counts, planes)?;
    let kept: Arc<dyn Any + Send + Sync> = Arc::new(streams.to_vec());
    let tables = |plane: u32| {
        let vci = |list: &Vec<VciId>| list.get(plane as usize).copied().unwrap_or(0);
        let address = |(peer, list)| EndpointAddress {
            peer,
            vci: vci(list),
            number: 0,
        };
        Arc::new(EndpointTable {
            list: comm.local().peers().zip(&all).map(address).collect(),
            one_each: true,
            contexts: planes,
            _kept: Some(kept.clone()),
        })
    };
    let planes: Vec<(ContextId, Arc<EndpointTable>)> = (0..planes)
        .map(|plane| (context.plus(plane), tables(plane)))
        .collect();
    let (group, rank) = (comm.local(), comm.rank());
    let from = |(context, tables): &(ContextId, Arc<EndpointTable>), vci: VciId| {
        Comm::endpoint_from(tables.clone(), group.clone(), *context, rank, vci)
    };
    let first = from(&planes[0], vcis.first().copied().unwrap_or(0));
    let comms = planes
        .iter()
        .flat_map(|plane| vcis.iter().map(move |vci| from(plane, *vci)));
    let routes = StreamComms {
        counts,
        comms: comms.collect(),
        own,
    };
    Ok((first, routes))
}
