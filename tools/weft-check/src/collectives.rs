//! Checks that all members of a communicator pass matching arguments to a collective. Each member
//! sends its arguments to rank 0 of the communicator, which compares them and, for blocking ones,
//! answers.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::abi::abi;
use crate::call_site::CallSite;
use crate::calls::{Call, ParamKind};
use crate::comms::Comm;
use crate::pmpi::{self, Sending};
use crate::types::{Signature, Types};

/// The lowest tag of this module's messages; the communicator's id determines the tag.
const TAGS: u64 = 100;

/// A member's arguments of a collective.
#[derive(Clone, Default, Debug)]
struct Record {
    id: u64,
    number: u64,
    /// Whether the member waits for an answer.
    waits: bool,
    name: String,
    root: i64,
    op: String,
    place: String,
    /// The signature that it sends to all, or one per member.
    sends: Vec<Signature>,
    receives: Vec<Signature>,
}

/// A call of a collective.
pub struct Collective {
    record: Record,
    ranks: Arc<[i32]>,
    rank: i32,
}

/// This process's arguments, and the members' ranks in `MPI_COMM_WORLD`.
type Own = (Record, Arc<[i32]>);

/// The collectives of which this process is rank 0 and has not compared all arguments.
#[derive(Default)]
pub struct Collectives {
    open: Mutex<HashMap<u64, VecDeque<Own>>>,
    sending: Mutex<Vec<Sending>>,
}

fn is_nonblocking(base: &str) -> bool {
    base.starts_with("MPI_I") && !base.starts_with("MPI_Intercomm")
        || base == "MPI_Comm_idup"
        || base == "MPI_Comm_idup_with_info"
}

/// Returns a collective's name without the markers of variants, or `None` for other functions.
fn kind(base: &'static str) -> Option<&'static str> {
    let name = base.strip_prefix("MPI_")?;
    let name = name.strip_suffix("_init").unwrap_or(name);
    const DATA: [&str; 22] = [
        "Barrier",
        "Bcast",
        "Gather",
        "Gatherv",
        "Scatter",
        "Scatterv",
        "Allgather",
        "Allgatherv",
        "Alltoall",
        "Alltoallv",
        "Alltoallw",
        "Reduce",
        "Allreduce",
        "Reduce_scatter",
        "Reduce_scatter_block",
        "Scan",
        "Exscan",
        "Neighbor_allgather",
        "Neighbor_allgatherv",
        "Neighbor_alltoall",
        "Neighbor_alltoallv",
        "Neighbor_alltoallw",
    ];
    const MADE: [&str; 17] = [
        "Comm_dup",
        "Comm_dup_with_info",
        "Comm_idup",
        "Comm_idup_with_info",
        "Comm_split",
        "Comm_split_type",
        "Comm_create",
        "Cart_create",
        "Graph_create",
        "Cart_sub",
        "Dist_graph_create",
        "Dist_graph_create_adjacent",
        "Win_create",
        "Win_allocate",
        "Win_allocate_shared",
        "Win_create_dynamic",
        "File_open",
    ];
    if MADE.contains(&name) {
        return Some(name);
    }
    DATA.into_iter().find(|data| {
        *data == name
            || name
                .strip_prefix('I')
                .is_some_and(|rest| rest.eq_ignore_ascii_case(data))
    })
}

/// Returns the signature of a buffer with one count and datatype.
fn one(types: &mut Types, call: Call<'_>, count: &str, datatype: &str) -> Vec<Signature> {
    let datatype = call.handle(datatype).and_then(|handle| types.get(handle));
    let count = call
        .number(count)
        .and_then(|count| u64::try_from(count).ok());
    datatype
        .zip(count)
        .map(|(datatype, count)| vec![datatype.of(count)])
        .unwrap_or_default()
}

/// Returns the signatures of a buffer with a count (and datatype) per member.
fn each(
    types: &mut Types,
    call: Call<'_>,
    counts: &str,
    datatype: &str,
    size: usize,
) -> Vec<Signature> {
    let counts = call.numbers(counts, size);
    let handles = match call.handle(datatype) {
        Some(handle) => vec![handle; size],
        None => abi().handles(
            ParamKind::Datatype,
            call.raw(&format!("{datatype}s")).unwrap_or(0),
            size,
        ),
    };
    let one = |(count, handle): (i64, usize)| {
        // With a count of 0 any datatype is valid, also a null one.
        match u64::try_from(count) {
            Ok(0) => Some(Signature::default()),
            Ok(count) => Some(types.get(handle)?.of(count)),
            Err(_) => None,
        }
    };
    let all: Option<Vec<Signature>> = counts
        .unwrap_or_default()
        .into_iter()
        .zip(handles)
        .map(one)
        .collect();
    all.unwrap_or_default()
}

impl Collective {
    /// Returns the arguments of a call, if it is a collective that can be compared.
    pub fn of(
        call: Call<'_>,
        place: CallSite,
        comm: &mut Comm,
        types: &mut Types,
    ) -> Option<Collective> {
        let name = kind(call.base())?;
        let ranks = comm.ranks.clone()?;
        if comm.inter || ranks.len() < 2 {
            return None;
        }
        comm.collectives += 1;
        let size = ranks.len();
        let root = call.number("root").unwrap_or(-1);
        let is_root = root == i64::from(comm.rank);
        let place_of = |name: &str| call.raw(name);
        let in_place =
            |name: &str| place_of(name).is_some_and(|address| abi().is_in_place(address));
        let (mut sends, mut receives) = match name {
            "Bcast" => (Vec::new(), one(types, call, "count", "datatype")),
            "Reduce" | "Allreduce" | "Scan" | "Exscan" => {
                (one(types, call, "count", "datatype"), Vec::new())
            }
            "Reduce_scatter_block" => (one(types, call, "recvcount", "datatype"), Vec::new()),
            "Reduce_scatter" => (
                Vec::new(),
                each(types, call, "recvcounts", "datatype", size),
            ),
            "Gather" | "Scatter" | "Allgather" | "Alltoall" => (
                one(types, call, "sendcount", "sendtype"),
                one(types, call, "recvcount", "recvtype"),
            ),
            "Gatherv" | "Allgatherv" => {
                let receives = match name == "Allgatherv" || is_root {
                    true => each(types, call, "recvcounts", "recvtype", size),
                    false => Vec::new(),
                };
                (one(types, call, "sendcount", "sendtype"), receives)
            }
            "Scatterv" => {
                let sends = match is_root {
                    true => each(types, call, "sendcounts", "sendtype", size),
                    false => Vec::new(),
                };
                (sends, one(types, call, "recvcount", "recvtype"))
            }
            "Alltoallv" | "Alltoallw" => {
                let sends = match in_place("sendbuf") {
                    true => Vec::new(),
                    false => each(types, call, "sendcounts", "sendtype", size),
                };
                (sends, each(types, call, "recvcounts", "recvtype", size))
            }
            _ => (Vec::new(), Vec::new()),
        };
        // In-place reductions still use count and datatype.
        if in_place("sendbuf") && call.function.place("sendtype").is_some() {
            sends.clear();
        }
        if in_place("recvbuf") && call.function.place("recvtype").is_some() {
            receives.clear();
        }
        if root >= 0 && !is_root {
            match name {
                "Gather" | "Gatherv" => receives.clear(),
                "Scatter" | "Scatterv" => sends.clear(),
                _ => {}
            }
        }
        let op = match call.handle("op") {
            Some(op) => abi()
                .predefined(ParamKind::Op, op)
                .unwrap_or("an operation of the program")
                .to_owned(),
            None => String::new(),
        };
        Some(Collective {
            record: Record {
                id: comm.id,
                number: comm.collectives,
                waits: !is_nonblocking(call.base()),
                name: call.base().to_owned(),
                root,
                op,
                place: place.text(),
                sends,
                receives,
            },
            ranks,
            rank: comm.rank,
        })
    }

    /// Returns id of the communicator and number of the collective on it.
    pub fn key(&self) -> (u64, u64) {
        (self.record.id, self.record.number)
    }
}

impl Collectives {
    /// Sends the arguments to rank 0, or receives them there. Waits for the members of a blocking
    /// collective. If they disagree and would hang, each member calls `report` before the job is
    /// aborted.
    pub fn meet(&self, collective: Collective, shadow: usize, report: impl Fn()) {
        let Collective {
            record,
            ranks,
            rank,
        } = collective;
        let tag = tag(record.id);
        if rank == 0 {
            let (id, number, waits) = (record.id, record.number, record.waits);
            self.open
                .lock()
                .entry(id)
                .or_default()
                .push_back((record, ranks));
            if waits {
                self.gather(id, number, shadow, report);
            }
            return;
        }
        let bytes = record.bytes();
        if record.waits {
            if pmpi::send(&bytes, ranks[0], tag, shadow) {
                let answer = pmpi::receive(ranks[0], tag, shadow);
                if answer.is_some_and(|answer| answer == ENDS) {
                    report();
                    pmpi::send(&[], ranks[0], tag, shadow);
                    // The job is aborted meanwhile.
                    pmpi::receive(ranks[0], tag, shadow);
                }
            }
        } else {
            let mut sending = self.sending.lock();
            sending.retain_mut(|sending| !pmpi::is_sent(sending));
            sending.extend(pmpi::isend(bytes, ranks[0], tag, shadow));
        }
    }

    /// Compares, at rank 0, the arguments of a communicator's collectives up to `number`. Calls `report`
    /// before the job is aborted.
    pub fn gather(&self, id: u64, number: u64, shadow: usize, report: impl Fn()) {
        loop {
            let next = {
                let mut open = self.open.lock();
                let Some(queue) = open.get_mut(&id) else {
                    return;
                };
                match queue.front() {
                    Some((record, _)) if record.number <= number => queue.pop_front(),
                    _ => None,
                }
            };
            let Some((own, ranks)) = next else { return };
            let tag = tag(id);
            let mut records = vec![own];
            for &member in &ranks[1..] {
                let Some(bytes) = pmpi::receive(member, tag, shadow) else {
                    return;
                };
                records.push(Record::from(&bytes).unwrap_or_default());
            }
            // A message of another communicator with the same tag: nothing can be compared.
            let same = records.iter().all(|record| record.id == id);
            if same && let Some((text, ends)) = judge(&records) {
                eprintln!("Weft check: {text}");
                if ends {
                    let waiting = records.iter().zip(&ranks[..]).skip(1);
                    let waiting = waiting.filter(|(record, _)| record.waits);
                    for (_, &member) in waiting.clone() {
                        pmpi::send(ENDS, member, tag, shadow);
                    }
                    report();
                    for (_, &member) in waiting {
                        pmpi::receive(member, tag, shadow);
                    }
                    pmpi::abort();
                }
            }
            for (record, &member) in records.iter().zip(&ranks[..]).skip(1) {
                if record.waits {
                    pmpi::send(&[], member, tag, shadow);
                }
            }
        }
    }
}

/// Rank 0's answer to members whose job ends.
const ENDS: &[u8] = b"ends";

fn tag(id: u64) -> i32 {
    (TAGS + id % 1_000_003) as i32
}

impl Record {
    fn bytes(&self) -> Vec<u8> {
        let mut words = vec![
            self.id,
            self.number,
            u64::from(self.waits),
            self.root as u64,
        ];
        for signatures in [&self.sends, &self.receives] {
            words.push(signatures.len() as u64);
            for one in signatures {
                words.extend([one.length, one.hash, one.bytes, u64::from(one.untyped)]);
            }
        }
        let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        bytes.extend(format!("{}\n{}\n{}", self.name, self.op, self.place).bytes());
        bytes
    }

    fn from(bytes: &[u8]) -> Option<Record> {
        let mut rest = bytes;
        let mut word = || {
            let (first, others) = rest.split_first_chunk::<8>()?;
            rest = others;
            Some(u64::from_ne_bytes(*first))
        };
        let (id, number, waits, root) = (word()?, word()?, word()? != 0, word()? as i64);
        let mut lists = [Vec::new(), Vec::new()];
        for list in &mut lists {
            for _ in 0..word()? {
                list.push(Signature {
                    length: word()?,
                    hash: word()?,
                    bytes: word()?,
                    untyped: word()? != 0,
                });
            }
        }
        let text = String::from_utf8_lossy(rest).into_owned();
        let mut lines = text.splitn(3, '\n').map(str::to_owned);
        let [sends, receives] = lists;
        Some(Record {
            id,
            number,
            waits,
            root,
            name: lines.next()?,
            op: lines.next()?,
            place: lines.next()?,
            sends,
            receives,
        })
    }

    fn text(&self) -> String {
        let mut text = self.place.clone();
        if self.root >= 0 {
            text += &format!(", root {}", self.root);
        }
        if !self.op.is_empty() {
            text += &format!(", {}", self.op);
        }
        text
    }
}

/// Describes the mismatch of the arguments. The flag says whether the collective would hang.
fn judge(records: &[Record]) -> Option<(String, bool)> {
    let first = records.first()?;
    let is_world = if first.id == 1 {
        "MPI_COMM_WORLD"
    } else {
        "a communicator (ranks are those in it)"
    };
    let all = |key: &dyn Fn(&Record) -> String| {
        let mut groups: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for (rank, record) in records.iter().enumerate() {
            groups.entry(key(record)).or_default().push(rank);
        }
        let mut lines: Vec<(usize, String)> = groups
            .into_iter()
            .map(|(text, ranks)| {
                let noun = if ranks.len() == 1 { "rank" } else { "ranks" };
                let numbers: Vec<String> = ranks.iter().map(usize::to_string).collect();
                (
                    ranks[0],
                    format!("\n  {noun} {}: {text}", numbers.join(", ")),
                )
            })
            .collect();
        lines.sort();
        lines.into_iter().map(|(_, line)| line).collect::<String>()
    };
    let number = first.number;
    if records.iter().any(|record| record.name != first.name) {
        let lines = all(&Record::text);
        let text = format!(
            "the members of {is_world} call different collectives (number {number} on it):{lines}\n  All members must \
             call the same ones in the same order; look for a call that some ranks leave out"
        );
        return Some((text, true));
    }
    if records.iter().any(|record| record.root != first.root) {
        let lines = all(&Record::text);
        let text = format!(
            "the members of {is_world} name different roots:{lines}\n  All must give the same root"
        );
        return Some((text, true));
    }
    if records.iter().any(|record| record.op != first.op) {
        let lines = all(&Record::text);
        let text = format!(
            "the members of {is_world} name different operations:{lines}\n  All must give the same operation"
        );
        return Some((text, false));
    }
    let (a, b, sent, wanted) = misfit(records)?;
    let say = |signature: Signature| match signature.untyped {
        true => format!("{} bytes", signature.bytes),
        false => format!(
            "{} elements of {} bytes in all",
            signature.length, signature.bytes
        ),
    };
    let same_size = sent.bytes == wanted.bytes;
    let text = format!(
        "members of {is_world} disagree about the data of {}:\n  rank {a} gives {} ({})\n  rank {b} expects {} ({})\n  \
         {}; counts and datatypes must say the same on both sides",
        first.name,
        say(sent),
        records[a].text(),
        say(wanted),
        records[b].text(),
        if same_size {
            "The datatypes differ"
        } else {
            "The amounts differ"
        }
    );
    Some((text, !same_size))
}

/// Finds two members with mismatched data. Returns sender, receiver, and their signatures.
fn misfit(records: &[Record]) -> Option<(usize, usize, Signature, Signature)> {
    let base = records[0].name.clone();
    let name = kind_of(&base)?;
    let root = usize::try_from(records[0].root).unwrap_or(0);
    let all = 0..records.len();
    let pick = |list: &[Signature], index: usize| match list {
        [] => None,
        [one] => Some(*one),
        list => list.get(index).copied(),
    };
    let check = |from: usize, to: usize| {
        let sent = pick(&records[from].sends, to)?;
        let wanted = pick(&records[to].receives, from)?;
        (!sent.fits(wanted)).then_some((from, to, sent, wanted))
    };
    match name {
        "Bcast" => {
            let sent = *records.get(root)?.receives.first()?;
            all.clone().find_map(|to| {
                let wanted = *records[to].receives.first()?;
                (!sent.fits(wanted)).then_some((root, to, sent, wanted))
            })
        }
        "Reduce" | "Allreduce" | "Scan" | "Exscan" | "Reduce_scatter_block" => {
            let at = if records[0].root >= 0 { root } else { 0 };
            let wanted = *records.get(at)?.sends.first()?;
            all.clone().find_map(|from| {
                let sent = *records[from].sends.first()?;
                (!sent.fits(wanted)).then_some((from, at, sent, wanted))
            })
        }
        "Reduce_scatter" => all.clone().find_map(|from| {
            let mut pairs = records[from].receives.iter().zip(&records[0].receives);
            pairs
                .find(|(sent, wanted)| !sent.fits(**wanted))
                .map(|(sent, wanted)| (from, 0, *sent, *wanted))
        }),
        "Gather" | "Gatherv" => all.clone().find_map(|from| check(from, root)),
        "Scatter" | "Scatterv" => all.clone().find_map(|to| check(root, to)),
        "Allgather" | "Allgatherv" | "Alltoall" | "Alltoallv" | "Alltoallw" => all
            .clone()
            .find_map(|from| all.clone().find_map(|to| check(from, to))),
        _ => None,
    }
}

fn kind_of(base: &str) -> Option<&'static str> {
    let known = crate::tables::FUNCTIONS
        .iter()
        .find(|function| function.base == base)?;
    kind(known.base)
}
