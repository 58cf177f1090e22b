//! An emulated terminal.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::room::Room;
use crate::{Result, patience};

/// A terminal with the picture that a program draws.
pub struct Terminal {
    own: File,
    shown: Arc<Mutex<vt100::Parser>>,
    pub child: Child,
}

impl Terminal {
    pub fn start(mut command: Command, rows: u16, columns: u16) -> Result<Terminal> {
        let (mut own, mut theirs) = (-1, -1);
        let mut size = size(rows, columns);
        let nothing = std::ptr::null_mut();
        // SAFETY: the pointers are to live locals or null, as openpty allows.
        let code = unsafe {
            libc::openpty(
                &raw mut own,
                &raw mut theirs,
                nothing,
                std::ptr::null_mut(),
                &raw mut size,
            )
        };
        if code != 0 {
            let error = std::io::Error::last_os_error();
            return Err(format!("no pseudo terminal: {error}"));
        }
        // SAFETY: openpty has just opened both descriptors, and no other value owns them.
        let (own, theirs) = unsafe { (OwnedFd::from_raw_fd(own), OwnedFd::from_raw_fd(theirs)) };
        let copy = || theirs.try_clone().map_err(|error| error.to_string());
        command.stdin(copy()?).stdout(copy()?).stderr(copy()?);
        command.env("TERM", "xterm-256color");
        let control = || {
            // SAFETY: these system calls are async-signal-safe.
            let code = unsafe {
                libc::setsid();
                libc::ioctl(0, libc::TIOCSCTTY, 0)
            };
            match code {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            }
        };
        // SAFETY: the closure makes only async-signal-safe calls, as needed between fork and exec.
        unsafe { command.pre_exec(control) };
        let child = command
            .spawn()
            .map_err(|error| format!("{command:?}: {error}"))?;
        drop(command);
        drop(theirs);
        let own = File::from(own);
        let mut from = own.try_clone().map_err(|error| error.to_string())?;
        let shown = Arc::new(Mutex::new(vt100::Parser::new(rows, columns, 1000)));
        let parser = shown.clone();
        thread::spawn(move || {
            let mut piece = [0; 4096];
            while let Ok(len @ 1..) = from.read(&mut piece) {
                let mut parser = parser.lock().unwrap_or_else(PoisonError::into_inner);
                parser.process(&piece[..len]);
            }
        });
        Ok(Terminal { own, shown, child })
    }

    pub fn text(&self) -> String {
        let shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        shown.screen().contents()
    }

    /// Returns whether the program uses the alternate screen.
    pub fn is_drawn_on(&self) -> bool {
        let shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        shown.screen().alternate_screen()
    }

    /// Waits until all these texts are shown.
    pub fn wait(&self, what: &[&str]) -> Result {
        let until = Instant::now() + patience(30.0);
        loop {
            let text = self.text();
            let lacks: Vec<_> = what.iter().filter(|part| !text.contains(**part)).collect();
            if lacks.is_empty() {
                return Ok(());
            }
            if Instant::now() >= until {
                return Err(format!("{lacks:?} not in\n{text}"));
            }
            thread::sleep(Duration::from_millis(50));
        }
    }

    pub fn press(&mut self, keys: &[u8]) -> Result {
        let pressed = self.own.write_all(keys).and_then(|()| self.own.flush());
        pressed.map_err(|error| error.to_string())
    }

    pub fn resize(&self, rows: u16, columns: u16) -> Result {
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        shown.screen_mut().set_size(rows, columns);
        let size = size(rows, columns);
        // SAFETY: the place can be read.
        let code = unsafe { libc::ioctl(self.own.as_raw_fd(), libc::TIOCSWINSZ, &raw const size) };
        match code {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error().to_string()),
        }
    }

    /// Waits for the job's end, checks its exit code, and stops reading the terminal.
    pub fn end(&mut self, room: &Room, expected: i32) -> Result {
        let until = Instant::now() + patience(30.0);
        let status = loop {
            if let Ok(Some(status)) = self.child.try_wait() {
                break status;
            }
            if Instant::now() >= until {
                return Err(format!("it does not end; shown is\n{}", self.text()));
            }
            thread::sleep(Duration::from_millis(20));
        };
        // The last output arrives soon after the end.
        thread::sleep(Duration::from_millis(200));
        let text = self.text();
        if status.code() != Some(expected) {
            return Err(format!("it ended with {status}, not {expected}\n{text}"));
        }
        if self.is_drawn_on() {
            return Err(format!("the terminal is left as it was drawn on\n{text}"));
        }
        let left = room.leftovers();
        match left.is_empty() {
            true => Ok(()),
            false => Err(format!("left behind: {left:?}")),
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn size(rows: u16, columns: u16) -> libc::winsize {
    libc::winsize {
        ws_row: rows,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    }
}
