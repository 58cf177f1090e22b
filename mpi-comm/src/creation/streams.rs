//! Streams: VCIs that a program takes for itself, one for each of its serial contexts (a thread, say), and
//! communicators whose messages go from one stream to another.
//!
//! They are an extension of MPICH (`MPIX_Stream_create` …). A communicator with streams is one with
//! endpoints, of which each process has one: its rank's messages arrive at the VCI of its stream. Where
//! a process has several streams there are *planes*: in plane `n` each rank is at its `n`-th stream, in a
//! context of its own, so that a receive at one stream never finds what was sent to another.

use std::any::Any;
use std::sync::Arc;

use netmod::VciId;

use crate::creation::vcis;
use mpi_core::comm::Comm;
use mpi_core::comm::points::{Point, Points};
use mpi_core::error::{Class, Error, Result};
use mpi_core::process::Process;
use mpi_core::vci::pool::Users;

/// A VCI that a program has for itself, until this is dropped.
pub struct Stream {
    vci: VciId,
    users: Arc<Users>,
}

impl Stream {
    /// Takes a VCI that nobody uses.
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

/// The ways between the streams of a communicator's members.
pub struct Ways {
    /// How many streams each rank has.
    counts: Box<[u32]>,
    /// For each plane a communicator for each stream of this process, which sends from it.
    comms: Box<[Comm]>,
    own: usize,
}

impl Ways {
    /// How many streams a rank has.
    pub fn count(&self, rank: u32) -> u32 {
        self.counts[rank as usize]
    }

    /// What sends from the stream `from` of this process to the streams `to` of others; with both the same,
    /// what receives at that stream. None if there are no such streams.
    pub fn way(&self, from: u32, to: u32) -> Option<&Comm> {
        let from = from as usize;
        let place = (to as usize).checked_mul(self.own)?.checked_add(from)?;
        self.comms.get(place).filter(|_| from < self.own)
    }

    /// Sets what requests give back as their owner.
    pub fn set_owner(&self, owner: u32) {
        for comm in &self.comms {
            comm.set_owner(owner);
        }
    }
}

/// Makes a communicator of the same processes whose messages go by streams; all members of the
/// intracommunicator `comm` call it, each with streams of its own. None among them stands for VCI 0.
/// Functions that name no stream use the first.
///
/// # Errors
/// `MPI_ERR_COMM` for an intercommunicator and one with endpoints or streams.
pub fn create(
    process: &Process,
    comm: &Comm,
    streams: &[Option<Arc<Stream>>],
) -> Result<(Comm, Ways)> {
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
    let told = crate::collective::gather_all_u64(process, comm, [own as u64])?;
    let counts: Box<[u32]> = told.iter().map(|told| told[0] as u32).collect();
    // A member without streams has a place for what names none.
    let most = counts.iter().copied().max().unwrap_or(0).max(1) as usize;
    let planes = gather_points(process, comm, &vcis, most)?;
    let kept: Arc<dyn Any + Send + Sync> = Arc::new(streams.to_vec());
    let planes: Vec<Arc<Points>> = planes
        .into_iter()
        .map(|list| {
            Arc::new(Points {
                list: list.into(),
                one_each: true,
                _kept: Some(kept.clone()),
            })
        })
        .collect();
    let (group, rank) = (comm.local(), comm.rank());
    let from = |points: &Arc<Points>, vci: VciId| {
        Comm::endpoint_from(points.clone(), group.clone(), rank, vci)
    };
    let first = from(&planes[0], vcis.first().copied().unwrap_or(0));
    let ways = planes
        .iter()
        .flat_map(|points| vcis.iter().map(move |vci| from(points, *vci)));
    let ways = Ways {
        counts,
        comms: ways.collect(),
        own,
    };
    Ok((first, ways))
}

/// Where all ranks are, in each plane.
fn gather_points(
    process: &Process,
    comm: &Comm,
    vcis: &[VciId],
    planes: usize,
) -> Result<Vec<Vec<Point>>> {
    let mut told = Vec::new();
    for plane in 0..planes {
        told.extend(process.new_context().to_bits().to_le_bytes());
        told.extend(vcis.get(plane).copied().unwrap_or(0).to_le_bytes());
    }
    // The address of VCI 0 is known.
    let mut others: Vec<VciId> = vcis.iter().copied().filter(|vci| *vci != 0).collect();
    others.sort_unstable();
    others.dedup();
    told.extend(vcis::addresses(process, comm, &others));
    let all = vcis::gather_all_bytes(process, comm, Some(&told))?.unwrap_or_default();
    let mut lists = vec![Vec::new(); planes];
    for (rank, mut told) in all.iter().map(Vec::as_slice).enumerate() {
        let peer = comm.local().peer(rank as u32);
        for list in &mut lists {
            let (point, rest) = super::endpoints::take_point(peer, told).ok_or_else(|| {
                let why = "a member told less of its streams than it announced";
                Error::new(Class::Intern, why)
            })?;
            list.push(point);
            told = rest;
        }
        while let Some((vci, transport, address)) = vcis::next_address(&mut told) {
            process.learn(peer, vci, transport, address);
        }
    }
    Ok(lists)
}
