//! Sessions of performance variables and their handles (section 14.3.7).
//!
//! Each handle has its own value: starting, stopping or resetting it changes no other handle, in
//! any session.

use std::collections::BTreeMap;

use crate::tool::pvars::{self, Class, VARIABLES, Variable};

use crate::tool::Error;
use crate::tool::Result;
use crate::tool::Tool;

/// A session.
#[derive(Default)]
pub struct Session {
    handles: BTreeMap<usize, Handle>,
}

/// The handles that a call refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Select {
    /// All handles of the session that allow the operation.
    All,
    /// The handle with this number.
    One(usize),
}

struct Handle {
    variable: &'static Variable,
    started: bool,
    /// The accumulated value; for a peak, its value.
    value: u64,
    /// The process's count at the last update of `value`.
    base: u64,
}

impl Handle {
    /// Updates `value`. Peaks are updated by [`Tool::harvest`].
    fn settle(&mut self) {
        let now = self.variable.now();
        match self.variable.class {
            Class::Level => self.value = now,
            Class::Peak => {}
            Class::Counter | Class::Sum => {
                if self.started {
                    self.value += now.saturating_sub(self.base);
                }
                self.base = now;
            }
        }
    }

    fn start(&mut self) {
        if self.started {
            return;
        }
        self.settle();
        self.started = true;
        if self.variable.class == Class::Peak {
            self.value = self.value.max(self.variable.now());
        }
    }

    fn stop(&mut self) {
        self.settle();
        self.started = false;
    }

    fn reset(&mut self) {
        self.settle();
        self.value = match self.variable.class {
            Class::Peak => self.variable.now(),
            _ => 0,
        };
    }
}

impl Tool {
    /// Creates a session.
    pub fn add_session(&mut self) -> usize {
        let number = self.number();
        self.sessions.insert(number, Session::default());
        number
    }

    /// Ends a session and frees its handles.
    ///
    /// # Errors
    /// `MPI_T_ERR_INVALID_SESSION`.
    pub fn remove_session(&mut self, session: usize) -> Result {
        let removed = self.sessions.remove(&session);
        removed.map(drop).ok_or(Error::InvalidSession)
    }

    fn session(&mut self, session: usize) -> Result<&mut Session> {
        let found = self.sessions.get_mut(&session);
        found.ok_or(Error::InvalidSession)
    }

    /// Creates a handle in a session.
    ///
    /// # Errors
    /// `MPI_T_ERR_INVALID_SESSION`.
    pub fn add_pvar(&mut self, session: usize, variable: &'static Variable) -> Result<usize> {
        let number = self.number();
        let handle = Handle {
            variable,
            started: variable.class.is_continuous(),
            value: 0,
            base: variable.now(),
        };
        self.session(session)?.handles.insert(number, handle);
        Ok(number)
    }

    /// Frees a handle.
    ///
    /// # Errors
    /// `MPI_T_ERR_INVALID_SESSION`, `MPI_T_ERR_INVALID_HANDLE`.
    pub fn remove_pvar(&mut self, session: usize, handle: usize) -> Result {
        let removed = self.session(session)?.handles.remove(&handle);
        removed.map(drop).ok_or(Error::InvalidHandle)
    }

    fn pvar(&mut self, session: usize, handle: usize) -> Result<&mut Handle> {
        let found = self.session(session)?.handles.get_mut(&handle);
        found.ok_or(Error::InvalidHandle)
    }

    /// Applies the peak since the last call, of which the process keeps one, to all started handles
    /// of peaks.
    fn harvest(&mut self) {
        let peak = pvars::peak();
        for session in self.sessions.values_mut() {
            for handle in session.handles.values_mut() {
                if handle.started && handle.variable.class == Class::Peak {
                    handle.value = handle.value.max(peak);
                }
            }
        }
    }

    /// Applies `act` to one handle, or to all of a session that are not continuous. One continuous
    /// handle is an error, `refusal`.
    fn with(
        &mut self,
        session: usize,
        select: Select,
        refusal: Error,
        act: impl Fn(&mut Handle),
    ) -> Result {
        match select {
            Select::One(handle) => {
                if self.pvar(session, handle)?.variable.class.is_continuous() {
                    return Err(refusal);
                }
                self.harvest();
                act(self.pvar(session, handle)?);
            }
            Select::All => {
                self.session(session)?;
                self.harvest();
                let handles = self.session(session)?.handles.values_mut();
                let fits = |handle: &&mut Handle| !handle.variable.class.is_continuous();
                handles.filter(fits).for_each(act);
            }
        }
        Ok(())
    }

    /// `MPI_T_pvar_start`.
    ///
    /// # Errors
    /// `MPI_T_ERR_PVAR_NO_STARTSTOP` for one continuous handle; those of [`Tool::remove_pvar`].
    pub fn start(&mut self, session: usize, select: Select) -> Result {
        self.with(session, select, Error::PvarNoStartstop, Handle::start)
    }

    /// `MPI_T_pvar_stop`.
    ///
    /// # Errors
    /// Those of [`Tool::start`].
    pub fn stop(&mut self, session: usize, select: Select) -> Result {
        self.with(session, select, Error::PvarNoStartstop, Handle::stop)
    }

    /// `MPI_T_pvar_reset`.
    ///
    /// # Errors
    /// `MPI_T_ERR_PVAR_NO_WRITE` for one continuous handle; those of [`Tool::remove_pvar`].
    pub fn reset(&mut self, session: usize, select: Select) -> Result {
        self.with(session, select, Error::PvarNoWrite, Handle::reset)
    }

    /// `MPI_T_pvar_read`.
    ///
    /// # Errors
    /// Those of [`Tool::remove_pvar`].
    pub fn read(&mut self, session: usize, handle: usize) -> Result<u64> {
        self.pvar(session, handle)?;
        self.harvest();
        let found = self.pvar(session, handle)?;
        found.settle();
        Ok(found.value)
    }

    /// `MPI_T_pvar_readreset`.
    ///
    /// # Errors
    /// `MPI_T_ERR_PVAR_NO_ATOMIC` for a continuous handle; those of [`Tool::remove_pvar`].
    pub fn read_reset(&mut self, session: usize, handle: usize) -> Result<u64> {
        if self.pvar(session, handle)?.variable.class.is_continuous() {
            return Err(Error::PvarNoAtomic);
        }
        let value = self.read(session, handle)?;
        let found = self.pvar(session, handle)?;
        // Events since the read are not lost: counters continue from there.
        found.value = match found.variable.class {
            Class::Peak => found.variable.now(),
            _ => 0,
        };
        Ok(value)
    }

    /// `MPI_T_pvar_write`.
    ///
    /// # Errors
    /// Those of [`Tool::reset`].
    pub fn write(&mut self, session: usize, handle: usize, value: u64) -> Result {
        let one = Select::One(handle);
        self.with(session, one, Error::PvarNoWrite, |handle| {
            handle.settle();
            handle.value = value;
        })
    }
}

/// Returns the index of a performance variable.
pub(crate) fn index_of(variable: &Variable) -> Option<usize> {
    VARIABLES.iter().position(|it| it.name == variable.name)
}
