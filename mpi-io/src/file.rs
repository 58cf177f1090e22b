//! An open file, and accesses by one process (MPI-3.1 sections 13.2 to 13.4).

use std::sync::Arc;
use std::sync::atomic::Ordering;

use mpi_core::comm::Comm;
use mpi_core::group::Group;
use mpi_core::info::Info;
use mpi_core::{Process, RequestId, Status};
use mpi_types::datatype::Datatype;
use mpi_types::{Class, Error, Result};
use parking_lot::Mutex;

use crate::access::Shared;
use crate::agree;
use crate::amode::Amode;
use crate::datarep::Representation;
use crate::direction::Direction;
use crate::domains;
use crate::files::{Files, status};
use crate::memory::Memory;
use crate::shared_pointer::SharedPointer;
use crate::split::Split;
use crate::view::View;

/// The position where an access begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum At {
    /// At this offset, in etypes of the view.
    Explicit(i64),
    /// At the individual pointer.
    Individual,
    /// At the shared pointer.
    Shared,
}

/// An open file.
pub struct File {
    shared: Arc<Shared>,
    comm: Comm,
    state: Mutex<State>,
    pointer: SharedPointer,
    pub(crate) split: Mutex<Option<Split>>,
    /// The name that the program gave.
    name: String,
    /// The ranks of the aggregators.
    aggregators: Vec<u32>,
}

struct State {
    view: Arc<View>,
    /// The individual pointer, in etypes.
    position: i64,
}

/// The part of a view that a checked access covers.
pub(crate) struct Region {
    pub view: Arc<View>,
    /// Its position in the stream, in bytes.
    pub position: u64,
    pub offset: i64,
    pub etypes: i64,
    /// Its bytes in the file.
    pub bytes: u64,
}

impl File {
    pub(crate) fn made(
        shared: Shared,
        comm: Comm,
        pointer: SharedPointer,
        name: String,
        aggregators: Vec<u32>,
        position: i64,
    ) -> File {
        File {
            shared: Arc::new(shared),
            comm,
            state: Mutex::new(State {
                view: Arc::new(View::bytes()),
                position,
            }),
            pointer,
            split: Mutex::default(),
            name,
            aggregators,
        }
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    pub(crate) fn comm(&self) -> &Comm {
        &self.comm
    }

    pub(crate) fn pointer(&self) -> &SharedPointer {
        &self.pointer
    }

    pub(crate) fn aggregators(&self) -> &[u32] {
        &self.aggregators
    }

    pub(crate) fn view(&self) -> Arc<View> {
        self.state.lock().view.clone()
    }

    pub(crate) fn individual(&self) -> i64 {
        self.state.lock().position
    }

    /// Sets the individual pointer to the result of `change` for the view and the current position.
    pub(crate) fn change_individual(
        &self,
        change: impl FnOnce(&View, i64) -> Result<i64>,
    ) -> Result<()> {
        let mut state = self.state.lock();
        state.position = change(&state.view, state.position)?;
        Ok(())
    }

    /// Advances the individual pointer by `etypes` of a view. Returns the old position, or `None`
    /// if the file has another view by now.
    fn advance_individual(&self, view: &Arc<View>, etypes: i64) -> Option<i64> {
        let mut state = self.state.lock();
        if !Arc::ptr_eq(&state.view, view) {
            return None;
        }
        let offset = state.position;
        state.position = offset.saturating_add(etypes);
        Some(offset)
    }

    /// Returns the access mode.
    pub fn amode(&self) -> Amode {
        self.shared.amode
    }

    /// Returns the group of processes that opened the file.
    pub fn group(&self) -> &Group {
        self.comm.local()
    }

    /// Returns the hints in force (`MPI_File_get_info`).
    ///
    /// # Errors
    /// Those of info objects.
    pub fn info(&self) -> Result<Info> {
        let (ranks, is_local) = (self.comm.size(), self.shared.storage.is_local());
        let hints = self.shared.hints();
        hints.to_info(&self.name, ranks, &self.aggregators, is_local)
    }

    /// `MPI_File_set_info`; all members call it.
    ///
    /// # Errors
    /// The error of a member's argument.
    pub fn set_info(&self, process: &Process, info: Result<Option<&Info>>) -> Result<()> {
        Files::settle(process, self)?;
        let info = agree::agree(process, &self.comm, info)?;
        self.update_hints(process, info)
    }

    /// Applies hints; of those that must be equal, the first member's.
    fn update_hints(&self, process: &Process, info: Option<&Info>) -> Result<()> {
        let mut hints = (*self.shared.hints()).clone();
        if let Some(info) = info {
            hints.update(info, false);
        }
        domains::settle(process, &self.comm, &mut hints)?;
        *self.shared.hints.lock() = Arc::new(hints);
        Ok(())
    }

    /// `MPI_File_get_size`.
    ///
    /// # Errors
    /// The system's.
    pub fn size(&self) -> Result<i64> {
        let size = self.shared.storage.size();
        size.map(|size| size as i64)
            .map_err(|error| self.shared.failed("asking for the size of", &error))
    }

    /// `MPI_File_set_size` (or, where `allocates`, `MPI_File_preallocate`); all members call it.
    ///
    /// # Errors
    /// `MPI_ERR_ARG` for a negative size, `MPI_ERR_READ_ONLY` and `MPI_ERR_UNSUPPORTED_OPERATION`
    /// where the access mode forbids it, `MPI_ERR_NOT_SAME` if members differ, and the system's.
    pub fn set_size(&self, process: &Process, size: i64, allocates: bool) -> Result<()> {
        Files::settle(process, self)?;
        let check = || {
            let name = match allocates {
                true => "MPI_File_preallocate",
                false => "MPI_File_set_size",
            };
            self.demand(Direction::Write)?;
            self.demand_random(name)?;
            match u64::try_from(size) {
                Ok(bytes) => Ok((bytes, vec![bytes])),
                Err(_) => Err(Error::new(
                    Class::Arg,
                    format!("size is {size}; it must be 0 or more"),
                )),
            }
        };
        let bytes = agree::same(process, &self.comm, "size", check(), 1)?;
        let storage = &self.shared.storage;
        let done = match (self.comm.rank(), allocates) {
            (0, true) => storage
                .allocate(bytes)
                .map_err(|error| self.shared.failed("taking room for", &error)),
            (0, false) => storage
                .set_len(bytes)
                .map_err(|error| self.shared.failed("setting the size of", &error)),
            _ => Ok(()),
        };
        agree::agree(process, &self.comm, done)
    }

    /// `MPI_File_sync`; all members call it.
    ///
    /// # Errors
    /// The system's, of any member.
    pub fn sync(&self, process: &Process) -> Result<()> {
        Files::settle(process, self)?;
        let synced = match self.shared.amode.can_write() {
            true => self.shared.storage.sync(),
            false => Ok(()),
        };
        let synced = synced.map_err(|error| self.shared.failed("storing", &error));
        agree::agree(process, &self.comm, synced)
    }

    /// `MPI_File_set_atomicity`; all members call it.
    ///
    /// # Errors
    /// `MPI_ERR_NOT_SAME` if members differ.
    pub fn set_atomicity(&self, process: &Process, atomic: bool) -> Result<()> {
        Files::settle(process, self)?;
        let own = Ok((atomic, vec![u64::from(atomic)]));
        agree::same(process, &self.comm, "flag", own, 1)?;
        self.shared.atomic.store(atomic, Ordering::Release);
        Ok(())
    }

    /// `MPI_File_get_atomicity`.
    pub fn atomicity(&self) -> bool {
        self.shared.is_atomic()
    }

    /// `MPI_File_set_view`; all members call it. `None` as displacement
    /// (`MPI_DISPLACEMENT_CURRENT`) stands for the position of the shared pointer of a sequential
    /// file.
    ///
    /// # Errors
    /// `MPI_ERR_ARG`, `MPI_ERR_TYPE` and `MPI_ERR_UNSUPPORTED_DATAREP` for invalid arguments,
    /// `MPI_ERR_NOT_SAME` if members have other etypes or representations.
    pub fn set_view(
        &self,
        process: &Process,
        arguments: Result<(Option<i64>, Datatype, Datatype, Representation)>,
        info: Option<&Info>,
    ) -> Result<()> {
        Files::settle(process, self)?;
        if self.shared.amode.sequential {
            // The view begins at the shared pointer, so accesses that members made with it before
            // this call must be complete.
            agree::agree(process, &self.comm, Ok(()))?;
        }
        let own = arguments.and_then(|(displacement, etype, filetype, representation)| {
            let displacement = self.displacement(displacement)?;
            let name = representation.name().to_owned();
            let writable = self.shared.amode.can_write();
            let view = View::new(displacement, &etype, &filetype, representation, writable)?;
            let numbers = vec![agree::hash(name.as_bytes()), view.etype_size()];
            Ok((view, numbers))
        });
        let what = "the etype's extent in the file, or the data representation,";
        // The same collective agrees whether a member has hints or has moved the shared pointer,
        // which is rare.
        let mut more = [u64::from(info.is_some() || self.pointer.was_moved())];
        let view = agree::same_and(process, &self.comm, what, own, 2, &mut more)?;
        {
            let mut state = self.state.lock();
            state.view = Arc::new(view);
            state.position = 0;
        }
        if more[0] == 0 {
            return Ok(());
        }
        let reset = match self.comm.rank() {
            0 => self.pointer.set(0),
            _ => Ok(()),
        };
        self.pointer.note_at_beginning();
        // The first member publishes its hints when the shared pointer is back at the beginning;
        // the others wait for them.
        self.update_hints(process, info)?;
        reset
    }

    fn displacement(&self, displacement: Option<i64>) -> Result<i64> {
        match (displacement, self.shared.amode.sequential) {
            (Some(displacement), false) => Ok(displacement),
            (None, true) => {
                let view = self.view();
                Ok(view.place(view.position(self.pointer.get()?)?) as i64)
            }
            (Some(_), true) => {
                let why = "disp must be MPI_DISPLACEMENT_CURRENT, since the file was opened with \
                           MPI_MODE_SEQUENTIAL";
                Err(Error::new(Class::Arg, why))
            }
            (None, false) => {
                let why = "disp is MPI_DISPLACEMENT_CURRENT, which is for files opened with \
                           MPI_MODE_SEQUENTIAL only";
                Err(Error::new(Class::Arg, why))
            }
        }
    }

    /// Returns displacement, etype, filetype and the name of the representation
    /// (`MPI_File_get_view`).
    pub fn view_arguments(&self) -> (i64, Datatype, Datatype, String) {
        let view = self.view();
        (
            view.displacement,
            view.etype.clone(),
            view.filetype.clone(),
            view.representation.name().to_owned(),
        )
    }

    /// `MPI_File_get_type_extent`.
    ///
    /// # Errors
    /// Those of a representation's function.
    pub fn type_extent(&self, datatype: &Datatype) -> Result<i64> {
        self.view().file_extent(datatype)
    }

    /// Refuses random access on a sequential file (`MPI_MODE_SEQUENTIAL`).
    pub(crate) fn demand_random(&self, function: &str) -> Result<()> {
        if !self.shared.amode.sequential {
            return Ok(());
        }
        let why = format!(
            "the file was opened with MPI_MODE_SEQUENTIAL, for which there is no {function}; use shared \
             and ordered access"
        );
        Err(Error::new(Class::UnsupportedOperation, why))
    }

    /// Refuses directions that the access mode does not allow.
    fn demand(&self, direction: Direction) -> Result<()> {
        let amode = self.shared.amode;
        match direction {
            Direction::Read if !amode.can_read() => Err(Error::new(
                Class::Access,
                "the file was opened with MPI_MODE_WRONLY; it can't be read",
            )),
            Direction::Write if !amode.can_write() => Err(Error::new(
                Class::ReadOnly,
                "the file was opened with MPI_MODE_RDONLY; it can't be written or changed",
            )),
            _ => Ok(()),
        }
    }

    /// Checks an access. Returns its number of etypes and bytes.
    pub(crate) fn measure(
        &self,
        at: At,
        memory: &Memory,
        direction: Direction,
    ) -> Result<(Arc<View>, i64, u64)> {
        self.demand(direction)?;
        if at != At::Shared {
            self.demand_random("access by explicit offsets or individual pointers")?;
        }
        let view = self.view();
        let bytes = view.representation.bytes(&memory.datatype, memory.count)? as u64;
        if bytes > 0 && view.is_empty() {
            let why = "the view's filetype has no data, so nothing can be read or written; set another view";
            return Err(Error::new(Class::Type, why));
        }
        if !bytes.is_multiple_of(view.etype_size()) {
            let why = format!(
                "{bytes} bytes of data are no multiple of the etype's {}; access whole etypes",
                view.etype_size()
            );
            return Err(Error::new(Class::Type, why));
        }
        let etypes = (bytes / view.etype_size()) as i64;
        Ok((view, etypes, bytes))
    }

    /// Returns the part of the view that an access covers, and advances the pointer behind it.
    pub(crate) fn place(&self, at: At, memory: &Memory, direction: Direction) -> Result<Region> {
        let (mut view, mut etypes, mut bytes) = self.measure(at, memory, direction)?;
        let offset = match at {
            At::Explicit(offset) if offset < 0 => {
                let why = format!("offset is {offset}; it must be 0 or more");
                return Err(Error::new(Class::Arg, why));
            }
            At::Explicit(offset) => offset,
            At::Individual => loop {
                if let Some(offset) = self.advance_individual(&view, etypes) {
                    break offset;
                }
                // Another thread has set another view meanwhile, in which the pointer is elsewhere.
                (view, etypes, bytes) = self.measure(at, memory, direction)?;
            },
            At::Shared => self.pointer.add(etypes)?,
        };
        let position = view.position(offset)?;
        view.position(offset.saturating_add(etypes))?;
        Ok(Region {
            view,
            position,
            offset,
            etypes,
            bytes,
        })
    }

    /// Corrects the individual pointer after an access that moved less than requested, unless it
    /// was moved again.
    pub(crate) fn correct(
        &self,
        at: At,
        place: &Region,
        memory: &Memory,
        moved: u64,
    ) -> Result<()> {
        let all = memory.buffer.len() as u64;
        if at != At::Individual || moved == all {
            return Ok(());
        }
        let bytes = place
            .view
            .representation
            .bytes_moved(&memory.datatype, moved)?;
        let mut state = self.state.lock();
        if state.position == place.offset.saturating_add(place.etypes) {
            state.position = place.offset + place.view.offset_of(bytes);
        }
        Ok(())
    }

    /// Reads or writes.
    ///
    /// # Errors
    /// The access mode forbids it, the arguments are wrong, or the system refuses.
    pub fn access(&self, at: At, mut memory: Memory, direction: Direction) -> Result<Status> {
        let place = self.place(at, &memory, direction)?;
        let (shared, view) = (&self.shared, &place.view);
        let moved = match (at, direction) {
            (At::Shared, Direction::Write) => shared.append(view, place.position, &mut memory),
            _ => shared.transfer(view, place.position, &mut memory, direction),
        };
        let had = moved.as_ref().map_or(0, |moved| *moved);
        self.correct(at, &place, &memory, had)?;
        moved.map(status)
    }

    /// Starts to read or write. OnDemand errors belong to the request, whose owner is `owner`.
    ///
    /// # Errors
    /// The access mode forbids it or the arguments are wrong.
    pub fn start(
        &self,
        process: &Process,
        owner: u32,
        at: At,
        mut memory: Memory,
        direction: Direction,
    ) -> Result<RequestId> {
        let place = self.place(at, &memory, direction)?;
        let (shared, vci) = (self.shared.clone(), self.comm.vci());
        let at_once = shared.try_transfer(&place.view, place.position, &memory, direction);
        if let Some(moved) = at_once {
            return Files::ended(process, vci, owner, Ok(moved));
        }
        if place.view.representation.needs_caller() {
            let moved = shared.transfer(&place.view, place.position, &mut memory, direction);
            return Files::ended(process, vci, owner, moved);
        }
        let len = memory.buffer.len();
        Files::start(process, vci, owner, len, move || {
            shared.transfer(&place.view, place.position, &mut memory, direction)
        })
    }
}
