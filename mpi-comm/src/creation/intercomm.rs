//! Intercommunicators of two groups whose leaders can send to each other (MPI-5.0 section 7.6.2).

use super::{broadcast_list, exchange};
use mpi_core::comm::{Comm, ContextId, Purpose};
use mpi_core::error::{Class, Error, Result};
use mpi_core::group::Group;
use mpi_core::process::Process;
use mpi_core::process::foreign::Identity;

/// How a group's leader reaches the other leader.
#[derive(Clone, Copy)]
pub struct Bridge<'a> {
    /// A communicator with both leaders.
    pub comm: &'a Comm,
    /// The other leader's rank in it, in the remote group if it has one.
    pub rank: u32,
    /// Tag of the messages between the leaders.
    pub tag: u32,
}

impl Bridge<'_> {
    /// Exchanges words with the other leader.
    ///
    /// # Errors
    /// The other leader has failed.
    pub(crate) fn exchange(&self, process: &Process, own: &[u64]) -> Result<Vec<u64>> {
        let number = match self.comm.remote() {
            Some(_) => self.comm.size() + self.rank,
            None => self.rank,
        };
        let purpose = Purpose::Creation;
        exchange(process, self.comm, purpose, number, self.tag, own)
    }
}

/// The groups that two leaders have exchanged, as all members of both know them.
pub(crate) struct Introduction {
    /// The contexts that the leaders offer, the local group's first.
    contexts: [u64; 2],
    leaders: [Identity; 2],
    /// The members of the remote group, by rank.
    theirs: Vec<Identity>,
}

/// Exchanges the groups between the leaders. `bridge` is passed by the local group's leader.
///
/// # Errors
/// All members of the group fail if the leader does.
pub(crate) fn introduce(
    process: &Process,
    local: &Comm,
    leader: u32,
    bridge: Option<Result<Bridge<'_>>>,
) -> Result<Introduction> {
    local.check_plain("MPI_Intercomm_create")?;
    let mut words = Vec::new();
    let mut failed = None;
    if let Some(bridge) = bridge {
        // Context, leader, members.
        let mut own = vec![process.new_context().to_bits()];
        own.extend(name_of(process, process.me()));
        let members = local.local().peers();
        own.extend(members.flat_map(|peer| name_of(process, peer)));
        match bridge.and_then(|bridge| bridge.exchange(process, &own)) {
            Ok(mut received) => {
                words.append(&mut own[..3].to_vec());
                words.append(&mut received);
            }
            Err(error) => failed = Some(error),
        }
    }
    broadcast_list(process, local, leader, &mut words)?;
    if let Some(error) = failed {
        return Err(error);
    }
    let [
        context,
        my_job,
        me,
        their_context,
        their_job,
        they,
        ref names @ ..,
    ] = words[..]
    else {
        let why = "the leader of the local group could not reach the remote leader";
        return Err(Error::new(Class::Other, why));
    };
    let (names, _) = names.as_chunks::<2>();
    let leaders = [identity(&[my_job, me])?, identity(&[their_job, they])?];
    Ok(Introduction {
        contexts: [context, their_context],
        leaders,
        theirs: names.iter().map(identity).collect::<Result<_>>()?,
    })
}

impl Introduction {
    /// Whether the local group is the first of the two.
    pub(crate) fn is_first(&self) -> bool {
        self.leaders[0] < self.leaders[1]
    }

    /// Returns whether all members of both groups are of one job, and so know each other. All
    /// members agree.
    pub(crate) fn is_within_job(&self, process: &Process, local: &Comm) -> bool {
        let job = self.leaders[0].job;
        let foreign = process.foreign();
        let mut ours = local.local().peers();
        ours.all(|peer| foreign.identity(peer).job == job)
            && self.theirs.iter().all(|one| one.job == job)
    }

    /// Returns the intercommunicator, if this process is connected with all members of the remote
    /// group.
    ///
    /// # Errors
    /// `MPI_ERR_COMM` if the groups overlap; `MPI_ERR_UNSUPPORTED_OPERATION` if some members are
    /// not connected.
    pub(crate) fn join(&self, process: &Process, local: &Comm) -> Result<Comm> {
        let peers = self.theirs.iter().map(|one| peer_of(process, *one));
        let peers: Vec<u32> = peers.collect::<Result<_>>()?;
        let remote = Group::from_peers(&peers)?;
        if let Some(both) = remote
            .peers()
            .find(|peer| local.local().rank_of(*peer).is_some())
        {
            return Err(Error::new(
                Class::Comm,
                format!(
                    "the groups of an intercommunicator must have no member in common, but process \
                     {both} of the job is in both"
                ),
            ));
        }
        let first = self.is_first();
        let context = self.contexts[usize::from(!first)];
        Ok(Comm::inter(
            ContextId::from_bits(context),
            local.local().clone(),
            remote,
            local.rank(),
            first,
        ))
    }
}

/// Returns the name of a process among connected jobs.
fn name_of(process: &Process, peer: u32) -> [u64; 2] {
    let Identity { job, rank } = process.foreign().identity(peer);
    [job, rank.into()]
}

fn identity([job, rank]: &[u64; 2]) -> Result<Identity> {
    let rank = u32::try_from(*rank).map_err(|_| {
        Error::new(
            Class::Intern,
            "internal error: the other leader sent an impossible rank",
        )
    })?;
    Ok(Identity { job: *job, rank })
}

/// Returns the number of a process that another process has named.
fn peer_of(process: &Process, identity: Identity) -> Result<u32> {
    process.foreign().find(identity).ok_or_else(|| {
        Error::new(
            Class::UnsupportedOperation,
            format!(
                "rank {} of another job is in the other group, and this process is not connected with it; \
                 connect the groups by MPI_Comm_connect and MPI_Comm_accept",
                identity.rank
            ),
        )
    })
}
