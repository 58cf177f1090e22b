//! Connection of jobs at run time (MPI-3.1 chapter 10): an intercommunicator between two groups of
//! processes that so far have only a link between their roots.
//!
//! Four exchanges over the link, each broadcast within both groups: the members' identities; the
//! connections that they have already; the addresses of transports that each has opened; and
//! whether every member has succeeded. So all members of both groups end with the communicator, or
//! all with an error.
//!
//! Two processes reuse a connection if both have it, and pin it from then on: other threads may be
//! freeing the communicator that made it, on either side. Otherwise they make another one, without
//! waiting for what another thread is doing, such as disconnecting. If another thread has made one
//! meanwhile too, they settle on one of the two, so that a process has only one number; they close
//! the other as soon as they have settled.

mod address_record;
#[doc(hidden)]
pub mod fuzzing;
pub mod intercomm;
pub mod part;

use std::sync::Arc;

use netmod::{OpenError, Peer, Transport};

use self::address_record::AddressRecord;
use crate::creation::vcis::gather_all_bytes;
use mpi_core::comm::{Comm, ContextId};
use mpi_core::error::{Class, Error, Result};
use mpi_core::group::Group;
use mpi_core::process::Process;
use mpi_core::process::foreign::connection::PendingConnection;
use mpi_core::process::foreign::{Directory, Identity, Member, Pin};

/// A link between the roots of two groups before they are connected.
pub trait Link {
    /// Exchanges bytes with the other root, for a call on `comm`.
    ///
    /// # Errors
    /// The other root is gone, or sends something else; a member of `comm` has failed.
    fn exchange(&mut self, process: &Process, comm: &Comm, own: &[u8]) -> Result<Vec<u8>>;
}

/// The transports that a process needs for a connection.
pub struct Wanted<'a> {
    /// This process's number in the connection.
    pub own: Peer,
    /// Whether some of the other processes are on this node.
    pub here: bool,
    /// Whether some are on other nodes.
    pub elsewhere: bool,
    /// Whether both groups are entirely on this node.
    pub one_machine: bool,
    /// Receives the addresses of other processes.
    pub directory: &'a Arc<Directory>,
}

/// Opens transports for connections.
pub trait Opener {
    /// Returns the node of this process; processes of equal numbers can share memory.
    fn node(&self) -> u64;

    /// Opens transports, the best first.
    ///
    /// # Errors
    /// No transport is suitable.
    fn open(&self, wanted: &Wanted<'_>) -> Result<Vec<Arc<dyn Transport>>, OpenError>;

    /// Whether the transport of this name reaches a process on a node.
    fn reaches(&self, transport: &str, node: u64) -> bool;
}

/// Error classes that are sent to the other members of a group, by index.
const SENT_CLASSES: [Class; 10] = [
    Class::Other,
    Class::Port,
    Class::Spawn,
    Class::Name,
    Class::Arg,
    Class::Comm,
    Class::Info,
    Class::InfoValue,
    Class::UnsupportedOperation,
    Class::ProcFailed,
];

/// Broadcasts the root's bytes, or its error, to all members of a group.
///
/// # Errors
/// The root's error.
pub fn broadcast_result(
    process: &Process,
    comm: &Comm,
    root: u32,
    own: Option<Result<Vec<u8>>>,
) -> Result<Vec<u8>> {
    let mut words = Vec::new();
    if let Some(own) = &own {
        let (status, bytes) = match own {
            Ok(bytes) => (0, &bytes[..]),
            Err(error) => {
                let class = SENT_CLASSES.iter().position(|one| *one == error.class());
                (class.unwrap_or(0) as u64 + 1, error.detail().as_bytes())
            }
        };
        // No job has the number 0.
        let lost = own.as_ref().err().and_then(Error::lost);
        let lost = lost.map(|peer| process.foreign().identity(peer));
        let (job, rank) = lost.map_or((0, 0), |lost| (lost.job, lost.rank));
        words.extend([status, bytes.len() as u64, job, rank.into()]);
        words.extend(bytes.chunks(8).map(|chunk| {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            u64::from_ne_bytes(word)
        }));
    }
    crate::creation::broadcast_list(process, comm, root, &mut words)?;
    if let Some(Err(error)) = own {
        return Err(error);
    }
    let [status, len, job, rank, ref rest @ ..] = words[..] else {
        return Err(Error::new(
            Class::Intern,
            "internal error: the root sent an empty result",
        ));
    };
    let mut bytes: Vec<u8> = rest.iter().flat_map(|word| word.to_ne_bytes()).collect();
    bytes.truncate(len as usize);
    match status.checked_sub(1) {
        None => Ok(bytes),
        Some(class) => {
            let class = SENT_CLASSES
                .get(class as usize)
                .copied()
                .unwrap_or(Class::Other);
            let why = String::from_utf8_lossy(&bytes).into_owned();
            let error = Error::new(class, format!("at the root: {why}"));
            let lost = u32::try_from(rank).ok().filter(|_| job != 0);
            let lost = lost.and_then(|rank| process.foreign().find(Identity { job, rank }));
            Err(match lost {
                Some(peer) => error.by_loss_of(peer),
                None => error,
            })
        }
    }
}

/// One of the two groups that connect.
struct Side<'a> {
    process: &'a Process,
    comm: &'a Comm,
    root: u32,
}

impl Side<'_> {
    /// Exchanges bytes between the roots, and broadcasts the other group's within this one.
    fn exchange_bytes(&self, link: &mut Option<&mut dyn Link>, own: &[u8]) -> Result<Vec<u8>> {
        let received = link.as_mut();
        let received = received.map(|link| link.exchange(self.process, self.comm, own));
        broadcast_result(self.process, self.comm, self.root, received)
    }

    /// Returns the members of this process's group.
    fn members(&self, node: u64) -> Result<Vec<Member>> {
        let foreign = self.process.foreign();
        let own = foreign.identity(self.process.me());
        let words = [own.job, own.rank.into(), node, foreign.mark().into()];
        let all = mpi_coll::gather_all_u64(self.process, self.comm, words)?;
        Ok(all.iter().map(member).collect())
    }

    /// Pins the members of the other group with which both sides have the same connection; `None`
    /// for the others.
    fn pin_known(
        &self,
        link: &mut Option<&mut dyn Link>,
        theirs: &[Member],
    ) -> Result<Vec<Option<Pin>>> {
        let foreign = self.process.foreign();
        let members = theirs.iter();
        let mut known: Vec<Option<Pin>> = members.map(|one| foreign.pin(one.identity)).collect();
        let mut own = Vec::new();
        // Mostly there are none.
        if known.iter().any(Option::is_some) {
            own.extend(known.iter().map(connection));
        }
        let received = self.exchange_numbers(link, &own, theirs)?.0;
        for (one, received) in known.iter_mut().zip(received) {
            one.take_if(|one| one.connection() != received);
        }
        Ok(known)
    }

    /// Sends each member of the other group a number, and returns theirs, 0 if they sent none. Also
    /// returns whether any member of the two groups has sent a number other than 0.
    fn exchange_numbers(
        &self,
        link: &mut Option<&mut dyn Link>,
        own: &[u64],
        theirs: &[Member],
    ) -> Result<(Vec<u64>, bool)> {
        let own: Vec<u8> = own.iter().flat_map(|number| number.to_ne_bytes()).collect();
        let all = gather_all_bytes(self.process, self.comm, Some(&own))?.unwrap_or_default();
        let received = self.exchange_bytes(link, &address_record::join(&all))?;
        let received =
            address_record::split(&received).filter(|received| received.len() == theirs.len());
        let received = received.ok_or_else(malformed)?;
        let any = all.iter().chain(&received).flatten().any(|byte| *byte != 0);
        let to_this = |numbers: &Vec<u8>| {
            let (numbers, _) = numbers.as_chunks::<8>();
            let number = numbers.get(self.comm.rank() as usize);
            number.map_or(0, |number| u64::from_ne_bytes(*number))
        };
        Ok((received.iter().map(to_this).collect(), any))
    }

    /// Settles on one connection with each newly connected process, of those that threads have made
    /// concurrently.
    ///
    /// Called when all members have joined this connection: of two threads at least one then sees
    /// the other's on both sides. The lesser of the two processes chooses.
    fn settle(
        &self,
        link: &mut Option<&mut dyn Link>,
        theirs: &[Member],
        is_new: &[bool],
        pins: &mut [Pin],
    ) -> Result<()> {
        let foreign = self.process.foreign();
        let me = foreign.identity(self.process.me());
        let mut chosen: Vec<Option<Pin>> = pins.iter().map(|_| None).collect();
        loop {
            let met = theirs.iter().zip(is_new).zip(&*pins).zip(&mut chosen);
            for (((one, is_new), pin), chosen) in met {
                if *is_new && me < one.identity && chosen.is_none() {
                    *chosen = foreign.choose(pin);
                }
            }
            let offers: Vec<u64> = chosen.iter().map(connection).collect();
            let (offered, _) = self.exchange_numbers(link, &offers, theirs)?;
            let mut lacking = vec![0; theirs.len()];
            let met = pins.iter().zip(offered).zip(&mut chosen).zip(&mut lacking);
            for (((pin, offered), chosen), lacking) in met {
                if offered != 0 && chosen.is_none() {
                    *chosen = foreign.follow(pin, offered);
                    *lacking = u64::from(chosen.is_none());
                }
            }
            // Another thread of the other process may be closing the chosen connection.
            let (lacking, any) = self.exchange_numbers(link, &lacking, theirs)?;
            if !any {
                break;
            }
            for (chosen, lacking) in chosen.iter_mut().zip(lacking) {
                if let Some(pin) = chosen.take_if(|_| lacking != 0) {
                    foreign.reject(&pin);
                }
            }
        }
        for (pin, chosen) in pins.iter_mut().zip(chosen) {
            if let Some(chosen) = chosen {
                *pin = chosen;
            }
        }
        Ok(())
    }
}

/// Returns the connection's number on the wire.
fn connection(pin: &Option<Pin>) -> u64 {
    pin.as_ref().map_or(0, Pin::connection)
}

fn member(words: &[u64; 4]) -> Member {
    Member {
        identity: Identity {
            job: words[0],
            rank: words[1] as u32,
        },
        node: words[2],
        mark: words[3] as u32,
    }
}

fn words(member: &Member) -> [u64; 4] {
    [
        member.identity.job,
        member.identity.rank.into(),
        member.node,
        member.mark.into(),
    ]
}

/// Decodes the other group's members from its root's message, and the context that it offers.
fn parse_members(bytes: &[u8]) -> Option<(u64, Vec<Member>)> {
    let (words, rest) = bytes.as_chunks::<8>();
    let words: Vec<u64> = words.iter().map(|word| u64::from_ne_bytes(*word)).collect();
    let (context, members) = words.split_first()?;
    let (members, more) = members.as_chunks::<4>();
    let fits = rest.is_empty() && more.is_empty() && !members.is_empty();
    fits.then(|| (*context, members.iter().map(member).collect()))
}

/// Connects the members of an intracommunicator with those of another one.
///
/// `link` leads to the other root, at this group's root. Exactly one of the two groups passes
/// `first`. No other thread disconnects the members while the pins live; the caller registers the
/// communicator before it drops them.
///
/// # Errors
/// The same on all members, but for the text: the link is broken, or two of the processes have no
/// transport in common.
pub fn meet(
    process: &Process,
    comm: &Comm,
    root: u32,
    first: bool,
    link: Option<Result<&mut dyn Link>>,
    opener: &dyn Opener,
) -> Result<(Comm, Vec<Pin>)> {
    comm.check_plain("connecting jobs")?;
    let side = Side {
        process,
        comm,
        root,
    };
    let own_members = side.members(opener.node())?;
    let (mut link, failed) = match link {
        Some(Ok(link)) => (Some(link), None),
        Some(Err(error)) => (None, Some(error)),
        None => (None, None),
    };
    let received = match (failed, &mut link) {
        (Some(error), _) => Some(Err(error)),
        (None, Some(link)) => {
            // The mark is in use from now on.
            let context = process.connecting_context();
            let mut bytes = context.to_bits().to_ne_bytes().to_vec();
            let own = own_members.iter().flat_map(words);
            bytes.extend(own.flat_map(u64::to_ne_bytes));
            Some(link.exchange(process, comm, &bytes).map(|theirs| {
                let theirs_first = &theirs[..theirs.len().min(8)];
                // All members of both groups take the context of the first.
                let context = if first { &bytes[..8] } else { theirs_first };
                [context, &theirs[theirs_first.len()..]].concat()
            }))
        }
        (None, None) => None,
    };
    let theirs = broadcast_result(process, comm, root, received)?;
    let (context, theirs) = parse_members(&theirs).ok_or_else(malformed)?;
    let context = ContextId::from_bits(context);
    // A process that is just disconnecting is connected anew.
    let known = side.pin_known(&mut link, &theirs)?;
    let is_new: Vec<bool> = known.iter().map(Option::is_none).collect();
    let groups = (&own_members[..], &theirs[..]);
    let mut met = Meeting::begin(&side, opener, context, first, groups, known);
    let record = match &met {
        Ok(met) => met.address_record(),
        Err(error) => AddressRecord::failed(error),
    };
    let records = gather_all_bytes(process, comm, Some(&record.to_bytes()))?.unwrap_or_default();
    let their_records = side.exchange_bytes(&mut link, &address_record::join(&records))?;
    let their_records = address_record::split(&their_records).ok_or_else(malformed)?;
    let mut any_new = false;
    for bytes in records.iter().chain(&their_records) {
        let record = AddressRecord::parse(bytes).ok_or_else(malformed)?;
        if let Some(why) = record.failure() {
            return Err(Error::new(Class::Other, why));
        }
        any_new |= record.addresses().next().is_some();
    }
    let pins = match &mut met {
        Ok(met) => met.join(opener, &theirs, &their_records),
        Err(error) => Err(error.clone()),
    };
    let failed = u64::from(pins.is_err());
    let (_, any_failed) = side.exchange_numbers(&mut link, &[failed], &theirs)?;
    let mut pins = pins?;
    if any_failed {
        let why = "processes of the two jobs can't reach each other; see their own messages for the reason";
        return Err(Error::new(Class::Other, why));
    }
    if any_new {
        side.settle(&mut link, &theirs, &is_new, &mut pins)?;
    }
    let peers: Vec<Peer> = pins.iter().map(Pin::peer).collect();
    let remote = Group::from_peers(&peers)?;
    let local = comm.local();
    if peers.iter().any(|peer| local.rank_of(*peer).is_some()) {
        let why = "a process is in both groups; connect disjoint groups";
        return Err(Error::new(Class::Comm, why));
    }
    if let Ok(met) = met {
        met.keep();
    }
    let made = Comm::inter(context, local.clone(), remote, comm.rank(), first);
    Ok((made, pins))
}

#[cold]
fn malformed() -> Error {
    let why = "the other job sent a malformed message; run the same version of Weft in both";
    Error::new(Class::Other, why)
}

/// A process's part in connecting with processes that it does not know.
struct Meeting<'a> {
    making: Option<PendingConnection<'a>>,
    /// Connections with members of the other group that exist already, by rank.
    known: Vec<Option<Pin>>,
    /// Number of the other group's rank 0 in the connection.
    start: Peer,
}

impl<'a> Meeting<'a> {
    fn begin(
        side: &Side<'a>,
        opener: &dyn Opener,
        context: ContextId,
        first: bool,
        (own, theirs): (&[Member], &[Member]),
        known: Vec<Option<Pin>>,
    ) -> Result<Meeting<'a>> {
        let process = side.process;
        let foreign = process.foreign();
        let rank = side.comm.rank();
        let (number, start) = if first {
            (rank, own.len() as Peer)
        } else {
            (theirs.len() as Peer + rank, 0)
        };
        let all = theirs.iter().zip(&known);
        let unknown: Vec<&Member> = all
            .filter(|(_, known)| known.is_none())
            .map(|(one, _)| one)
            .collect();
        if unknown.is_empty() {
            return Ok(Meeting {
                making: None,
                known,
                start,
            });
        }
        if unknown.iter().any(|one| foreign.is_mark_taken(one)) {
            let why = "two processes have got the same number by chance; try again in a new job";
            return Err(Error::new(Class::Other, why));
        }
        let node = opener.node();
        let count = theirs.len() as u32;
        let mut making = process.begin_connection(context, number, start, count, node);
        let here = |one: &&Member| one.node == node;
        let wanted = Wanted {
            own: number,
            here: unknown.iter().copied().any(|one| here(&one)),
            elsewhere: !unknown.iter().copied().all(|one| here(&one)),
            one_machine: own.iter().chain(theirs).all(|one| one.node == node),
            directory: &making.directory().clone(),
        };
        let failed = |error: OpenError| Error::new(Class::Other, error.0);
        for transport in opener.open(&wanted).map_err(failed)? {
            making.add(transport).map_err(failed)?;
        }
        Ok(Meeting {
            making: Some(making),
            known,
            start,
        })
    }

    fn address_record(&self) -> AddressRecord {
        let addresses = self.making.as_ref().map(PendingConnection::addresses);
        AddressRecord::of(addresses.unwrap_or_default())
    }

    /// Connects with the other group's members. Returns the connections by rank.
    fn join(
        &mut self,
        opener: &dyn Opener,
        theirs: &[Member],
        records: &[Vec<u8>],
    ) -> Result<Vec<Pin>> {
        if records.len() != theirs.len() {
            return Err(malformed());
        }
        let known = std::mem::take(&mut self.known);
        let mut pins = Vec::with_capacity(theirs.len());
        for (rank, ((member, bytes), known)) in (0..).zip(theirs.iter().zip(records).zip(known)) {
            let pin = match (known, &self.making) {
                (Some(pin), _) => pin,
                (None, Some(making)) => {
                    let record = AddressRecord::parse(bytes).ok_or_else(malformed)?;
                    self.meet_one(making, opener, rank, member, &record)?
                }
                (None, None) => return Err(malformed()),
            };
            pins.push(pin);
        }
        Ok(pins)
    }

    /// Connects with a process that this one did not know.
    fn meet_one(
        &self,
        making: &PendingConnection<'_>,
        opener: &dyn Opener,
        rank: Peer,
        member: &Member,
        record: &AddressRecord,
    ) -> Result<Pin> {
        let number = self.start + rank;
        for (name, address) in record.addresses() {
            making.directory().note(number, 0, name, address);
        }
        let offers = |name: &str| record.addresses().any(|(offered, _)| offered == name);
        let mut transports = making.names();
        let transport = transports.find(|name| offers(name) && opener.reaches(name, member.node));
        let pin = transport.and_then(|name| making.join(number, *member, name));
        pin.ok_or_else(|| {
            let offered: Vec<&str> = record.addresses().map(|(name, _)| name).collect();
            Error::new(
                Class::Other,
                format!(
                    "no common transport with process {rank} of the other group, which offers {}; have both jobs \
                     use the same transport (WEFT_NETMOD)",
                    if offered.is_empty() { "nothing".to_string() } else { offered.join(", ") }
                ),
            )
        })
    }

    fn keep(self) {
        if let Some(making) = self.making {
            making.keep();
        }
    }
}
