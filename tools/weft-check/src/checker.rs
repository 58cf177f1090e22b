//! The checks before and after each call.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{LazyLock, OnceLock};

use parking_lot::Mutex;

use crate::abi::abi;
use crate::buffers::Region;
use crate::call_site::CallSite;
use crate::calls::{Call, ParamKind};
use crate::collectives::{Collective, Collectives};
use crate::comms::{Comms, Removed};
use crate::messages::{Data, Messages};
use crate::objects::{self, Objects};
use crate::requests::{Message, Operation, Requests};
use crate::tables::FUNCTIONS;
use crate::types::Types;
use crate::uses::uses;
use crate::{pmpi, report};

/// The state of the program's MPI objects and operations.
struct Checker {
    objects: Objects,
    types: Types,
    comms: Comms,
    requests: Requests,
    messages: Messages,
    rank: i32,
}

static CHECKER: LazyLock<Mutex<Option<Checker>>> = LazyLock::new(Mutex::default);
/// Whether calls are checked: from the end of `MPI_Init` to that of `MPI_Finalize`.
static CHECKING: AtomicBool = AtomicBool::new(false);
/// The shadow communicator, for this library's messages; 0 if there is none.
static SHADOW: AtomicUsize = AtomicUsize::new(0);
static COLLECTIVES: OnceLock<Collectives> = OnceLock::new();

fn collectives() -> &'static Collectives {
    COLLECTIVES.get_or_init(Collectives::default)
}

fn shadow() -> usize {
    SHADOW.load(Ordering::Acquire)
}

/// The findings before a call that are needed after it.
pub struct Before {
    place: CallSite,
    ending: Option<(ParamKind, usize)>,
    /// Its state, removed before the call, since another thread may get the same handle at once.
    ended: Option<Ended>,
    new_comm: Option<u64>,
    /// The requests that the call may complete, and their address.
    requests: Vec<usize>,
    variable: usize,
    /// Statuses for a program that ignores them.
    _statuses: Vec<u64>,
    statuses: usize,
    collective: Option<(u64, u64)>,
    /// Buffers, sends and receives.
    regions: Vec<Region>,
    messages: Vec<Message>,
    receive: Option<(u64, u64)>,
}

/// The state of an object that a call frees.
struct Ended {
    made: Option<CallSite>,
    comm: Option<Removed>,
}

/// Checks a call of function number `index` before it is made. May replace arguments.
pub fn before(index: usize, args: &mut [usize]) -> Option<Before> {
    if !CHECKING.load(Ordering::Relaxed) {
        return None;
    }
    let function = &FUNCTIONS[index];
    let mut before = Before {
        place: CallSite::here(function.name),
        ending: None,
        ended: None,
        new_comm: None,
        requests: Vec::new(),
        variable: 0,
        _statuses: Vec::new(),
        statuses: 0,
        collective: None,
        regions: Vec::new(),
        messages: Vec::new(),
        receive: None,
    };
    let mut meeting = None;
    {
        let mut checker = CHECKER.lock();
        let checker = checker.as_mut()?;
        let call = Call { function, args };
        if call.base() == "MPI_Finalize" {
            let all = SHADOW.swap(0, Ordering::AcqRel);
            if all != 0 {
                checker.messages.finish(checker.rank, all);
                pmpi::end_shadow(all);
            }
            return Some(before);
        }
        if call.base() == "MPI_Abort" {
            checker.report_waiting();
            return Some(before);
        }
        before.ending = objects::ending(call);
        if function
            .params
            .iter()
            .any(|param| param.kind == Some(ParamKind::Comm) && param.pointer && !param.read)
        {
            before.new_comm = checker.comms.id_of_new(call);
        }
        checker.completing(call, &mut before);
        if shadow() != 0 && checker.knows_handles(call) {
            if let Some(handle) = call
                .handle("comm")
                .or_else(|| call.handle("old_comm"))
                .or_else(|| call.handle("comm_old"))
                && let Some(comm) = checker.comms.get(handle)
                && let Some(collective) =
                    Collective::of(call, before.place, comm, &mut checker.types)
            {
                before.collective = Some(collective.key());
                meeting = Some(collective);
            }
            checker.data(call, &mut before);
            checker.requests.collide(&before.regions, before.place);
        }
        before.ended = before
            .ending
            .map(|(kind, handle)| checker.forget(kind, handle));
    }
    // Without the lock, since this waits for other members.
    if let Some(collective) = meeting {
        collectives().meet(collective, shadow(), report_waiting);
    }
    if !before.requests.is_empty() && matches!(function.base, "MPI_Wait" | "MPI_Waitall") {
        wait_for_members(&before);
    }
    if before.statuses != 0
        && let Some(place) = function
            .place("status")
            .or_else(|| function.place("array_of_statuses"))
    {
        args[place] = before.statuses;
    }
    Some(before)
}

/// Compares the members' arguments, at rank 0, of nonblocking collectives that the call completes.
fn wait_for_members(before: &Before) {
    let mut keys = Vec::new();
    if let Some(checker) = CHECKER.lock().as_mut() {
        for (i, &handle) in before.requests.iter().enumerate() {
            let variable = before.variable + i * abi().stride(ParamKind::Request);
            let found = checker.requests.find(handle, variable);
            keys.extend(found.and_then(|operation| operation.collective));
        }
    }
    for (id, number) in keys {
        collectives().gather(id, number, shadow(), report_waiting);
    }
}

/// Reports the mistakes that are known before the job ends early.
fn report_waiting() {
    if let Some(checker) = CHECKER.lock().as_mut() {
        checker.report_waiting();
    }
}

/// Updates the state after a call has returned.
pub fn after(before: Option<Before>, index: usize, args: &[usize], result: usize) {
    let function = &FUNCTIONS[index];
    let call = Call { function, args };
    let is_good = result as i32 == 0;
    match function.base {
        "MPI_Init" | "MPI_Init_thread" | "MPI_Session_init" if is_good && before.is_none() => {
            begin(function.base != "MPI_Session_init");
            if function.base == "MPI_Session_init"
                && let Some(checker) = CHECKER.lock().as_mut()
            {
                let place = CallSite::here(function.name);
                checker.made(call, place, None);
            }
            return;
        }
        "MPI_Finalize" => return end(),
        _ => {}
    }
    let Some(mut before) = before else { return };
    let mut guard = CHECKER.lock();
    let Some(checker) = guard.as_mut() else {
        return;
    };
    if is_good {
        checker.made(call, before.place, before.new_comm);
    } else if let (Some((kind, handle)), Some(ended)) = (before.ending, before.ended.take()) {
        checker.remember(kind, handle, ended);
    }
    if shadow() != 0 {
        checker.completed(call, &before, is_good);
        checker.begun(call, before, is_good);
    }
}

fn begin(world: bool) {
    let mut checker = CHECKER.lock();
    if checker.is_none() {
        *checker = Some(Checker {
            objects: Objects::default(),
            types: Types::default(),
            comms: Comms::default(),
            requests: Requests::default(),
            messages: Messages::default(),
            rank: 0,
        });
    }
    let Some(checker) = checker.as_mut() else {
        return;
    };
    if world && pmpi::is_initialized() {
        checker.rank = pmpi::rank(abi().world).unwrap_or(0);
        report::set_rank(checker.rank);
        let size = pmpi::size(abi().world).unwrap_or(1);
        checker.messages = Messages::new(usize::try_from(size).unwrap_or(1));
        SHADOW.store(pmpi::shadow().unwrap_or(0), Ordering::Release);
    }
    CHECKING.store(true, Ordering::Release);
}

fn end() {
    CHECKING.store(false, Ordering::Release);
    let Some(checker) = CHECKER.lock().take() else {
        return;
    };
    checker.requests.leaked();
    checker.objects.leaked();
    report::report_repeats();
}

impl Checker {
    fn report_waiting(&mut self) {
        if shadow() != 0 {
            self.messages.flush(shadow());
        }
        report::report_repeats();
    }

    /// Returns whether the handles of a call are valid, so that MPI can be asked about them.
    fn knows_handles(&self, call: Call<'_>) -> bool {
        let params = call.function.params.iter().zip(call.args);
        params.into_iter().all(|(param, &raw)| match param.kind {
            Some(kind @ (ParamKind::Comm | ParamKind::Datatype)) if !param.pointer => {
                let handle = abi().by_value(kind, raw);
                match abi().predefined(kind, handle) {
                    Some(name) => !name.ends_with("_NULL"),
                    None => self.objects.knows(kind, handle),
                }
            }
            _ => true,
        })
    }

    /// Removes the state of an object before it is freed.
    fn forget(&mut self, kind: ParamKind, handle: usize) -> Ended {
        if kind == ParamKind::Datatype {
            self.types.forget(handle);
        }
        Ended {
            made: self.objects.remove(kind, handle),
            comm: (kind == ParamKind::Comm).then(|| self.comms.remove(handle)),
        }
    }

    /// Restores the state of an object that a failed call has not freed.
    fn remember(&mut self, kind: ParamKind, handle: usize, ended: Ended) {
        if let Some(place) = ended.made {
            self.objects.add(kind, handle, place);
        }
        if let Some(comm) = ended.comm {
            self.comms.put_back(handle, comm);
        }
    }

    /// Adds the objects that a call has created.
    fn made(&mut self, call: Call<'_>, place: CallSite, id: Option<u64>) {
        for (kind, handle) in objects::made(call) {
            self.objects.add(kind, handle, place);
            match kind {
                ParamKind::Comm => self.comms.add(call, handle, id),
                ParamKind::Datatype => self.types.forget(handle),
                _ => {}
            }
        }
    }

    /// Finds the requests that a call may complete.
    fn completing(&mut self, call: Call<'_>, before: &mut Before) {
        let base = call.base();
        let is_one = matches!(
            base,
            "MPI_Wait" | "MPI_Test" | "MPI_Request_free" | "MPI_Cancel" | "MPI_Start"
        );
        let (place, count) = match base {
            _ if is_one => (call.raw("request"), Some(1)),
            "MPI_Waitany" | "MPI_Testany" | "MPI_Waitall" | "MPI_Testall" | "MPI_Startall" => {
                (call.raw("array_of_requests"), call.number("count"))
            }
            "MPI_Waitsome" | "MPI_Testsome" => {
                (call.raw("array_of_requests"), call.number("incount"))
            }
            _ => (None, None),
        };
        let (Some(place), Some(count)) =
            (place, count.and_then(|count| usize::try_from(count).ok()))
        else {
            // Source and tag of a blocking receive are in its status.
            let takes = matches!(
                base,
                "MPI_Recv"
                    | "MPI_Mrecv"
                    | "MPI_Mprobe"
                    | "MPI_Improbe"
                    | "MPI_Sendrecv"
                    | "MPI_Sendrecv_replace"
            );
            if takes
                && call
                    .raw("status")
                    .is_some_and(|status| abi().ignores_status(status))
            {
                before.own_statuses(1);
            }
            return;
        };
        before.requests = abi().handles(ParamKind::Request, place, count);
        before.variable = place;
        let statuses = call.raw("status").or_else(|| call.raw("array_of_statuses"));
        if statuses.is_some_and(|status| abi().ignores_status(status))
            && self.requests.need_status(&before.requests)
        {
            before.own_statuses(count);
        }
    }

    /// Finds the buffers and messages of a call.
    fn data(&mut self, call: Call<'_>, before: &mut Before) {
        let base = call.base();
        if base.starts_with("MPI_P") {
            // The program fills the buffer of a partitioned operation while it is active.
            return;
        }
        let handle = call.handle("comm");
        let mut of_comm = None;
        if let Some(handle) = handle
            && let Some(comm) = self.comms.get(handle)
        {
            of_comm = Some((
                comm.rank,
                comm.ranks.as_ref().map_or(1, |ranks| ranks.len()),
                comm.inter,
            ));
        }
        if handle.is_some() && of_comm.is_none() {
            // The members are unknown, as in some intercommunicators.
            return;
        }
        for one in uses(call, of_comm) {
            if let Some(datatype) = self.types.get(one.datatype) {
                before
                    .regions
                    .extend(Region::of(one.buffer, one.count, &datatype, one.written));
            }
        }
        let Some(handle) = handle else {
            if let ("MPI_Mrecv" | "MPI_Imrecv", Some((_, message))) = (base, before.ending)
                && let Some(data) = self.data_of(call, before.place, "count", "datatype")
            {
                self.messages.matched(message, data);
            }
            return;
        };
        let peer = |name: &str| call.number(name).map(|number| number as i32);
        let mut add = |peer: Option<i32>, tag: Option<i32>, data: Option<Data>, sends: bool| {
            if let (Some(peer), Some(tag), Some(data)) = (peer, tag, data)
                && peer != abi().proc_null
            {
                before.messages.push(Message {
                    comm: handle,
                    peer,
                    tag,
                    data,
                    sends,
                });
            }
        };
        let place = before.place;
        let (send, receive) = match call.function.place("sendcount") {
            Some(_) => (("sendcount", "sendtype"), ("recvcount", "recvtype")),
            None => (("count", "datatype"), ("count", "datatype")),
        };
        let tags = match call.function.place("sendtag") {
            Some(_) => ("sendtag", "recvtag"),
            None => ("tag", "tag"),
        };
        if call.function.place("dest").is_some() {
            let data = self.data_of(call, place, send.0, send.1);
            add(peer("dest"), peer(tags.0), data, true);
        }
        if call.function.place("source").is_some()
            && call.function.place("status") != Some(0)
            && !base.contains("probe")
        {
            let data = self.data_of(call, place, receive.0, receive.1);
            add(peer("source"), peer(tags.1), data, false);
        }
        // A persistent receive is posted when it is started.
        if !base.ends_with("_init") {
            let receive = before
                .messages
                .iter()
                .find(|message| !message.sends)
                .cloned();
            before.receive = receive.and_then(|message| self.post(&message));
        }
    }

    fn data_of(
        &mut self,
        call: Call<'_>,
        place: CallSite,
        count: &str,
        datatype: &str,
    ) -> Option<Data> {
        Some(Data {
            datatype: self.types.get(call.handle(datatype)?)?,
            count: u64::try_from(call.number(count)?).ok()?,
            place,
        })
    }

    fn post(&mut self, message: &Message) -> Option<(u64, u64)> {
        let comm = self.comms.get(message.comm)?;
        comm.ranks.as_ref()?;
        let id = comm.id;
        let number = self
            .messages
            .post(id, message.peer, message.tag, Some(message.data.clone()));
        Some((id, number))
    }

    /// Returns communicator, this process's rank in it, and the peer's rank in `MPI_COMM_WORLD`.
    fn route(&mut self, message: &Message) -> Option<(u64, i32, i32)> {
        let comm = self.comms.get(message.comm)?;
        let world = *comm
            .ranks
            .as_ref()?
            .get(usize::try_from(message.peer).ok()?)?;
        Some((comm.id, comm.rank, world))
    }

    fn describe_sent(&mut self, message: &Message) {
        if let Some((id, rank, world)) = self.route(message) {
            self.messages.sent(
                id,
                rank,
                (message.peer, world),
                message.tag,
                &message.data,
                shadow(),
            );
        }
    }

    /// Adds the operation that a call has started.
    fn begun(&mut self, call: Call<'_>, before: Before, is_good: bool) {
        let base = call.base();
        let request = call
            .function
            .params
            .iter()
            .zip(call.args)
            .find(|(param, _)| {
                param.kind == Some(ParamKind::Request)
                    && param.pointer
                    && param.written
                    && !param.read
            });
        if !is_good {
            if let Some((comm, number)) = before.receive {
                self.messages.spoil(comm);
                self.messages.end(comm, number, None, shadow());
            }
            return;
        }
        let persistent = base.ends_with("_init") && base != "MPI_Init";
        if !persistent {
            for message in before.messages.iter().filter(|message| message.sends) {
                self.describe_sent(message);
            }
        }
        let Some((_, &variable)) = request else {
            if let Some((comm, number)) = before.receive
                && let Some(status) = before.status(call)
            {
                let got = abi().status(status);
                self.messages.end(comm, number, Some(got), shadow());
            }
            if let "MPI_Mprobe" | "MPI_Improbe" = base {
                self.probed(call, &before);
            }
            return;
        };
        let Some(&handle) = abi().handles(ParamKind::Request, variable, 1).first() else {
            return;
        };
        if abi().predefined(ParamKind::Request, handle).is_some() {
            return;
        }
        let mut regions = before.regions;
        if !persistent {
            regions.iter_mut().for_each(Region::note);
        }
        self.requests.add(
            handle,
            Operation {
                place: before.place,
                regions,
                receive: before.receive,
                messages: before.messages,
                collective: before.collective.filter(|_| !persistent),
                persistent: persistent || base == "MPI_Psend_init" || base == "MPI_Precv_init",
                active: !persistent,
                cancelled: false,
                variable,
                unsure: false,
            },
        );
    }

    fn probed(&mut self, call: Call<'_>, before: &Before) {
        let flag = call.raw("flag").filter(|flag| *flag != 0);
        // SAFETY: `flag` is not null, and the MPI library has written it.
        let found = flag.is_none_or(|flag| unsafe { (flag as *const i32).read_unaligned() } != 0);
        let message = call
            .raw("message")
            .map(|place| abi().handles(ParamKind::Message, place, 1));
        let (Some(&[message]), Some(status)) = (message.as_deref(), before.status(call)) else {
            return;
        };
        let comm = call.handle("comm").and_then(|comm| self.comms.get(comm));
        if let Some(comm) = comm.filter(|comm| found && comm.ranks.is_some())
            && abi().predefined(ParamKind::Message, message).is_none()
        {
            let id = comm.id;
            self.messages
                .probed(id, message, abi().status(status), shadow());
        }
    }

    /// Removes the operations that a call has completed.
    fn completed(&mut self, call: Call<'_>, before: &Before, is_good: bool) {
        if before.requests.is_empty() {
            return;
        }
        let variable = |i: usize| before.variable + i * abi().stride(ParamKind::Request);
        let number = |name: &str| {
            let place = call.raw(name)?;
            // SAFETY: the address is not null, and the MPI library has written a number to it.
            (place != 0).then(|| unsafe { (place as *const i32).read_unaligned() })
        };
        let flag = number("flag").is_none_or(|flag| flag != 0);
        let count = before.requests.len();
        let some = |index: Option<i32>| {
            index
                .and_then(|index| usize::try_from(index).ok())
                .filter(|index| *index < count)
        };
        let pairs: Vec<(usize, usize)> = match call.base() {
            "MPI_Start" | "MPI_Startall" => {
                if is_good {
                    (0..count)
                        .for_each(|i| self.start(before.requests[i], variable(i), before.place));
                }
                return;
            }
            "MPI_Cancel" => {
                if let Some(operation) = self.requests.find(before.requests[0], variable(0)) {
                    operation.cancelled = true;
                }
                return;
            }
            "MPI_Request_free" => {
                if is_good {
                    self.requests.remove(before.requests[0], variable(0));
                }
                return;
            }
            _ if !is_good => {
                // A request that has become null is complete or has failed.
                let now = abi().handles(ParamKind::Request, before.variable, count);
                let ended = (0..count).filter(|i| now[*i] != before.requests[*i]);
                for i in ended.collect::<Vec<_>>() {
                    if let Some(operation) = self.requests.remove(before.requests[i], variable(i))
                        && let Some((comm, number)) = operation.receive
                    {
                        self.messages.spoil(comm);
                        self.messages.end(comm, number, None, shadow());
                    }
                }
                return;
            }
            _ if !flag => return,
            "MPI_Waitany" | "MPI_Testany" => {
                some(number("index")).map(|i| (i, 0)).into_iter().collect()
            }
            "MPI_Waitsome" | "MPI_Testsome" => {
                let done = some(number("outcount").map(|n| n - 1)).map_or(0, |last| last + 1);
                let indices = call.numbers("array_of_indices", done).unwrap_or_default();
                indices
                    .into_iter()
                    .enumerate()
                    .filter_map(|(at, index)| Some((some(Some(index as i32))?, at)))
                    .collect()
            }
            _ => (0..count).map(|i| (i, i)).collect(),
        };
        for (i, at) in pairs {
            let status = before
                .status(call)
                .map(|first| first + at * abi().status_size());
            self.complete(before.requests[i], variable(i), status, before.place);
        }
    }

    fn start(&mut self, handle: usize, variable: usize, place: CallSite) {
        let Some(operation) = self.requests.find(handle, variable) else {
            return;
        };
        let mut regions = operation.regions.clone();
        let messages = operation.messages.clone();
        self.requests.collide(&regions, place);
        regions.iter_mut().for_each(Region::note);
        let mut receive = None;
        for message in &messages {
            if message.sends {
                self.describe_sent(message);
            } else {
                receive = self.post(message);
            }
        }
        if let Some(operation) = self.requests.find(handle, variable) {
            operation.active = true;
            operation.regions = regions;
            operation.receive = receive;
        }
    }

    fn complete(&mut self, handle: usize, variable: usize, status: Option<usize>, place: CallSite) {
        let Some(found) = self.requests.find(handle, variable) else {
            return;
        };
        let (persistent, receive) = (found.persistent, found.receive);
        let cancelled = found.cancelled && status.is_some_and(pmpi::is_cancelled);
        let messages = if cancelled {
            found.messages.clone()
        } else {
            Vec::new()
        };
        if persistent {
            if found.active {
                found.look(place);
                found.active = false;
            }
        } else if let Some(operation) = self.requests.remove(handle, variable) {
            operation.look(place);
        }
        if let Some((comm, number)) = receive {
            let got = status
                .filter(|_| !cancelled)
                .map(|status| abi().status(status));
            self.messages.end(comm, number, got, shadow());
        }
        for message in messages.iter().filter(|message| message.sends) {
            if let Some((id, rank, world)) = self.route(message) {
                self.messages.cancel(id, rank, world, message.tag, shadow());
            }
        }
    }
}

impl Before {
    /// Provides statuses for a program that ignores them.
    fn own_statuses(&mut self, count: usize) {
        self._statuses = vec![0; count.max(1) * 4];
        self.statuses = self._statuses.as_ptr() as usize;
    }

    /// Returns the address of the first status, if there is one.
    fn status(&self, call: Call<'_>) -> Option<usize> {
        let place = call
            .raw("status")
            .or_else(|| call.raw("array_of_statuses"))?;
        (!abi().ignores_status(place)).then_some(place)
    }
}
