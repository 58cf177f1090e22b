//! Jobs that meet at run time (MPI-3.1 chapter 10): an intercommunicator between two groups of processes that
//! have only a link between their roots so far.
//!
//! What is said over the link, and told to all members of a group: who they are; then, whom they know already; then,
//! when each has opened the transports that it needs to the others, where these are; then whether it has worked out for
//! everybody. So all members of both groups end with the communicator, or all with an error.
//!
//! Two processes use the connection that they have if both say that they have it, and hold on to it from then on: other
//! threads may be freeing what has joined the two so far, here or there. Otherwise they make another, and wait for
//! nothing that another thread is at, such as their parting. If another thread has made one, too, meanwhile, they settle on
//! one of them, so that a process has one number only; they part by the other as soon as they have it.

mod card;
#[doc(hidden)]
pub mod fuzzing;
pub mod intercomm;
pub mod part;

use std::sync::Arc;

use netmod::{OpenError, Peer, Transport};

use self::card::Card;
use crate::creation::vcis::gather_all_bytes;
use mpi_core::comm::{Comm, ContextId};
use mpi_core::error::{Class, Error, Result};
use mpi_core::group::Group;
use mpi_core::process::Process;
use mpi_core::process::foreign::ways::Making;
use mpi_core::process::foreign::{Directory, Identity, Member, Pin};

/// What joins the roots of two groups until they are connected.
pub trait Link {
    /// Sends bytes to the other root and receives those that it sends, for a call on `comm`.
    ///
    /// # Errors
    /// The other root is gone, or sends something else; a member of `comm` is lost.
    fn exchange(&mut self, process: &Process, comm: &Comm, own: &[u8]) -> Result<Vec<u8>>;
}

/// Which transports a process needs for a connection.
pub struct Wanted<'a> {
    /// This process's number in the connection.
    pub own: Peer,
    /// Whether some of the others are on its node.
    pub here: bool,
    /// Whether some are elsewhere.
    pub elsewhere: bool,
    /// Whether both groups are on its node altogether.
    pub one_machine: bool,
    /// Knows the addresses, once these are told.
    pub directory: &'a Arc<Directory>,
}

/// Opens transports for connections.
pub trait Opener {
    /// The node of this process: those of equal numbers can share memory.
    fn node(&self) -> u64;

    /// Opens transports, the best first.
    ///
    /// # Errors
    /// There is none that would do.
    fn open(&self, wanted: &Wanted<'_>) -> Result<Vec<Arc<dyn Transport>>, OpenError>;

    /// Whether the transport of this name reaches a process of a node.
    fn reaches(&self, transport: &str, node: u64) -> bool;
}

/// Error classes that are told to the other members of a group.
const TOLD: [Class; 10] = [
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

/// Tells all members of a group what its root has, or that it has failed.
///
/// # Errors
/// That of the root.
pub fn tell_result(
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
                let class = TOLD.iter().position(|one| *one == error.class());
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
    crate::creation::tell_list(process, comm, root, &mut words)?;
    if let Some(Err(error)) = own {
        return Err(error);
    }
    let [status, len, job, rank, ref rest @ ..] = words[..] else {
        return Err(Error::new(Class::Intern, "the root told nothing"));
    };
    let mut bytes: Vec<u8> = rest.iter().flat_map(|word| word.to_ne_bytes()).collect();
    bytes.truncate(len as usize);
    match status.checked_sub(1) {
        None => Ok(bytes),
        Some(class) => {
            let class = TOLD.get(class as usize).copied().unwrap_or(Class::Other);
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

/// One of the two groups that meet.
struct Side<'a> {
    process: &'a Process,
    comm: &'a Comm,
    root: u32,
}

impl Side<'_> {
    /// Has the roots trade bytes, and tells all members what the other group has.
    fn trade(&self, link: &mut Option<&mut dyn Link>, own: &[u8]) -> Result<Vec<u8>> {
        let told = link.as_mut();
        let told = told.map(|link| link.exchange(self.process, self.comm, own));
        tell_result(self.process, self.comm, self.root, told)
    }

    /// This process and the others of its group.
    fn members(&self, node: u64) -> Result<Vec<Member>> {
        let foreign = self.process.foreign();
        let own = foreign.identity(self.process.me());
        let words = [own.job, own.rank.into(), node, foreign.mark().into()];
        let all = mpi_coll::gather_all_u64(self.process, self.comm, words)?;
        Ok(all.iter().map(member).collect())
    }

    /// Holds on to those of the other group that know this process as it knows them; none for those who are to be met.
    fn hold_known(
        &self,
        link: &mut Option<&mut dyn Link>,
        theirs: &[Member],
    ) -> Result<Vec<Option<Pin>>> {
        let foreign = self.process.foreign();
        let members = theirs.iter();
        let mut known: Vec<Option<Pin>> = members.map(|one| foreign.pin(one.identity)).collect();
        let mut own = Vec::new();
        // Mostly they know nobody.
        if known.iter().any(Option::is_some) {
            own.extend(known.iter().map(connection));
        }
        let told = self.tell_each(link, &own, theirs)?.0;
        for (one, told) in known.iter_mut().zip(told) {
            one.take_if(|one| one.connection() != told);
        }
        Ok(known)
    }

    /// Tells each of the other group a number, and takes theirs, 0 if they have none. Also says whether anybody of the
    /// two groups has told anybody another number than 0.
    fn tell_each(
        &self,
        link: &mut Option<&mut dyn Link>,
        own: &[u64],
        theirs: &[Member],
    ) -> Result<(Vec<u64>, bool)> {
        let own: Vec<u8> = own.iter().flat_map(|number| number.to_ne_bytes()).collect();
        let all = gather_all_bytes(self.process, self.comm, Some(&own))?.unwrap_or_default();
        let told = self.trade(link, &card::join(&all))?;
        let told = card::split(&told).filter(|told| told.len() == theirs.len());
        let told = told.ok_or_else(broken)?;
        let any = all.iter().chain(&told).flatten().any(|byte| *byte != 0);
        let to_this = |numbers: &Vec<u8>| {
            let (numbers, _) = numbers.as_chunks::<8>();
            let number = numbers.get(self.comm.rank() as usize);
            number.map_or(0, |number| u64::from_ne_bytes(*number))
        };
        Ok((told.iter().map(to_this).collect(), any))
    }

    /// Settles on one connection with each of those who were met, of those that threads have made at the same time. To be
    /// called when all have joined the own one: of two threads, one at least then sees the other's on both sides. Which
    /// one is it is up to the lesser of the two processes.
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
            let (offered, _) = self.tell_each(link, &offers, theirs)?;
            let mut lacking = vec![0; theirs.len()];
            let met = pins.iter().zip(offered).zip(&mut chosen).zip(&mut lacking);
            for (((pin, offered), chosen), lacking) in met {
                if offered != 0 && chosen.is_none() {
                    *chosen = foreign.follow(pin, offered);
                    *lacking = u64::from(chosen.is_none());
                }
            }
            // Another thread may be parting there by what was chosen here.
            let (lacking, any) = self.tell_each(link, &lacking, theirs)?;
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

/// As it is told to others.
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

/// The other group's members as its root told them, and a context that it offers.
fn parse_members(bytes: &[u8]) -> Option<(u64, Vec<Member>)> {
    let (words, rest) = bytes.as_chunks::<8>();
    let words: Vec<u64> = words.iter().map(|word| u64::from_ne_bytes(*word)).collect();
    let (context, members) = words.split_first()?;
    let (members, more) = members.as_chunks::<4>();
    let fits = rest.is_empty() && more.is_empty() && !members.is_empty();
    fits.then(|| (*context, members.iter().map(member).collect()))
}

/// Connects the members of an intracommunicator with those of another, to whose root `link` leads at the own
/// root. One of the two groups says that it is the `first`. No other thread parts from the members of the communicator
/// while the pins live; then they are to be in use.
///
/// # Errors
/// The same on all members, but for words: the link is broken, there is no way between two of the processes.
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
    let told = match (failed, &mut link) {
        (Some(error), _) => Some(Err(error)),
        (None, Some(link)) => {
            // The mark is in use from now on.
            let context = process.connecting_context();
            let mut bytes = context.to_bits().to_ne_bytes().to_vec();
            let own = own_members.iter().flat_map(words);
            bytes.extend(own.flat_map(u64::to_ne_bytes));
            Some(link.exchange(process, comm, &bytes).map(|theirs| {
                let theirs_first = &theirs[..theirs.len().min(8)];
                // All members of both groups are to take the context of the first.
                let context = if first { &bytes[..8] } else { theirs_first };
                [context, &theirs[theirs_first.len()..]].concat()
            }))
        }
        (None, None) => None,
    };
    let theirs = tell_result(process, comm, root, told)?;
    let (context, theirs) = parse_members(&theirs).ok_or_else(broken)?;
    let context = ContextId::from_bits(context);
    // Whoever is just parting is met anew.
    let known = side.hold_known(&mut link, &theirs)?;
    let is_new: Vec<bool> = known.iter().map(Option::is_none).collect();
    let groups = (&own_members[..], &theirs[..]);
    let mut met = Meeting::begin(&side, opener, context, first, groups, known);
    let card = match &met {
        Ok(met) => met.card(),
        Err(error) => Card::failed(error),
    };
    let cards = gather_all_bytes(process, comm, Some(&card.to_bytes()))?.unwrap_or_default();
    let their_cards = side.trade(&mut link, &card::join(&cards))?;
    let their_cards = card::split(&their_cards).ok_or_else(broken)?;
    let mut any_new = false;
    for bytes in cards.iter().chain(&their_cards) {
        let card = Card::parse(bytes).ok_or_else(broken)?;
        if let Some(why) = card.failure() {
            return Err(Error::new(Class::Other, why));
        }
        any_new |= card.addresses().next().is_some();
    }
    let pins = match &mut met {
        Ok(met) => met.join(opener, &theirs, &their_cards),
        Err(error) => Err(error.clone()),
    };
    let failed = u64::from(pins.is_err());
    let (_, any_failed) = side.tell_each(&mut link, &[failed], &theirs)?;
    let mut pins = pins?;
    if any_failed {
        let why = "processes of the two jobs can't reach each other; what they say tells why";
        return Err(Error::new(Class::Other, why));
    }
    if any_new {
        side.settle(&mut link, &theirs, &is_new, &mut pins)?;
    }
    let peers: Vec<Peer> = pins.iter().map(Pin::peer).collect();
    let remote = Group::from_peers(&peers)?;
    let local = comm.local();
    if peers.iter().any(|peer| local.rank_of(*peer).is_some()) {
        let why = "a process is in both groups";
        return Err(Error::new(Class::Comm, why));
    }
    if let Ok(met) = met {
        met.keep();
    }
    let made = Comm::inter(context, local.clone(), remote, comm.rank(), first);
    Ok((made, pins))
}

#[cold]
fn broken() -> Error {
    let why = "the other job sent something that makes no sense; do both run the same Weft?";
    Error::new(Class::Other, why)
}

/// What a process does to be connected with those that it does not know.
struct Meeting<'a> {
    making: Option<Making<'a>>,
    /// Those of the other group that it knows, by rank.
    known: Vec<Option<Pin>>,
    /// The number of the other group's rank 0 in the connection.
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

    fn card(&self) -> Card {
        let addresses = self.making.as_ref().map(Making::addresses);
        Card::of(addresses.unwrap_or_default())
    }

    /// Takes the other group's members in, by rank.
    fn join(
        &mut self,
        opener: &dyn Opener,
        theirs: &[Member],
        cards: &[Vec<u8>],
    ) -> Result<Vec<Pin>> {
        if cards.len() != theirs.len() {
            return Err(broken());
        }
        let known = std::mem::take(&mut self.known);
        let mut pins = Vec::with_capacity(theirs.len());
        for (rank, ((member, bytes), known)) in (0..).zip(theirs.iter().zip(cards).zip(known)) {
            let pin = match (known, &self.making) {
                (Some(pin), _) => pin,
                (None, Some(making)) => {
                    let card = Card::parse(bytes).ok_or_else(broken)?;
                    self.meet_one(making, opener, rank, member, &card)?
                }
                (None, None) => return Err(broken()),
            };
            pins.push(pin);
        }
        Ok(pins)
    }

    /// Takes one in that this process did not know.
    fn meet_one(
        &self,
        making: &Making<'_>,
        opener: &dyn Opener,
        rank: Peer,
        member: &Member,
        card: &Card,
    ) -> Result<Pin> {
        let number = self.start + rank;
        for (name, address) in card.addresses() {
            making.directory().note(number, 0, name, address);
        }
        let offers = |name: &str| card.addresses().any(|(offered, _)| offered == name);
        let mut ways = making.names();
        let way = ways.find(|name| offers(name) && opener.reaches(name, member.node));
        let pin = way.and_then(|name| making.join(number, *member, name));
        pin.ok_or_else(|| {
            let offered: Vec<&str> = card.addresses().map(|(name, _)| name).collect();
            Error::new(
                Class::Other,
                format!(
                    "there is no way to process {rank} of the other group, which offers {}; have both jobs \
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
