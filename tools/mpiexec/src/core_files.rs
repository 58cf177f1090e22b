//! Renames core files of ranks to `core.rankN`.
//!
//! By default the kernel calls all of them `core` or adds the process number, which does not show
//! the rank.

use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::system::Pid;

/// Most by which a file system's clock lags behind the system's.
const CLOCKS: Duration = Duration::from_secs(1);
/// Most bytes of notes that are searched for the process number.
const NOTES: u64 = 1 << 20;

/// A process that has left a core file.
pub struct Dumped<'a> {
    /// Its process number.
    pub pid: Pid,
    /// Its rank in its job.
    pub rank: usize,
    /// Its working directory at its start.
    pub folder: &'a Path,
    /// The time of its start.
    pub since: SystemTime,
}

/// Renames the process's core file and returns the new path.
///
/// Returns `None` if the kernel passes cores to a program, if the process died in another folder
/// than it was started in, or if no core file names this process.
pub fn rename(dumped: &Dumped) -> Option<PathBuf> {
    let setting = |name: &str| fs::read(format!("/proc/sys/kernel/{name}"));
    let pattern = setting("core_pattern").ok()?;
    let adds_pid = setting("core_uses_pid").is_ok_and(|text| text.trim_ascii() != b"0");
    named(dumped, pattern.trim_ascii_end(), adds_pid)
}

fn named(dumped: &Dumped, pattern: &[u8], adds_pid: bool) -> Option<PathBuf> {
    let (folder, file) = split(pattern, adds_pid, dumped.pid)?;
    let folder = dumped.folder.join(std::ffi::OsStr::from_bytes(&folder));
    let entries = fs::read_dir(folder).ok()?;
    let fits = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default();
        matches(&file, name.as_bytes()) && is_of(path, dumped).unwrap_or(false)
    };
    let found = entries.flatten().map(|entry| entry.path()).find(fits)?;
    renamed(&found, dumped)
}

/// A part of a core file's name.
#[derive(Debug, PartialEq, Eq)]
enum Part {
    Byte(u8),
    /// Any bytes: a specifier such as `%e`.
    Any,
}

/// Splits a pattern of core(5) into folder and file name.
fn split(pattern: &[u8], adds_pid: bool, pid: Pid) -> Option<(Vec<u8>, Vec<Part>)> {
    // The kernel pipes the core to a program or socket.
    if matches!(pattern.first(), None | Some(b'|' | b'@')) {
        return None;
    }
    let mut parts = Vec::new();
    let mut adds_pid = adds_pid;
    let add =
        |parts: &mut Vec<Part>, text: &[u8]| parts.extend(text.iter().copied().map(Part::Byte));
    let mut bytes = pattern.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'%' => match bytes.next() {
                Some(b'%') => add(&mut parts, b"%"),
                Some(b'p') => {
                    adds_pid = false;
                    add(&mut parts, pid.to_string().as_bytes());
                }
                Some(_) => parts.push(Part::Any),
                // The kernel drops a lone % at the end.
                None => {}
            },
            byte => add(&mut parts, &[*byte]),
        }
    }
    if adds_pid {
        add(&mut parts, format!(".{pid}").as_bytes());
    }
    let slash = parts.iter().rposition(|part| *part == Part::Byte(b'/'));
    let file = parts.split_off(slash.map_or(0, |at| at + 1));
    let byte = |part: &Part| match part {
        Part::Byte(byte) => Some(*byte),
        Part::Any => None,
    };
    let folder: Option<Vec<u8>> = parts.iter().map(byte).collect();
    Some((folder?, file)).filter(|(_, file)| !file.is_empty())
}

fn matches(pattern: &[Part], name: &[u8]) -> bool {
    match pattern {
        [] => name.is_empty(),
        [Part::Byte(byte), rest @ ..] => name.first() == Some(byte) && matches(rest, &name[1..]),
        [Part::Any, rest @ ..] => (0..=name.len()).any(|from| matches(rest, &name[from..])),
    }
}

/// Returns whether a file is the core of this process.
fn is_of(path: &Path, dumped: &Dumped) -> io::Result<bool> {
    let about = fs::symlink_metadata(path)?;
    if !about.is_file() || about.modified()? + CLOCKS < dumped.since {
        return Ok(false);
    }
    Ok(process(&File::open(path)?)? == Some(dumped.pid))
}

/// Reads the process number from the notes of a core file.
fn process(core: &File) -> io::Result<Option<Pid>> {
    const CORE: u16 = 4;
    const NOTE: u32 = 4;
    let mut head = [0; 64];
    core.read_exact_at(&mut head, 0)?;
    // 64 bits, little-endian.
    if head[..6] != *b"\x7fELF\x02\x01" || short(&head, 16) != CORE {
        return Ok(None);
    }
    let (table, size, count) = (long(&head, 32), short(&head, 54), short(&head, 56));
    for number in 0..u64::from(count) {
        let mut segment = [0; 56];
        core.read_exact_at(&mut segment, table + number * u64::from(size))?;
        if word(&segment, 0) == NOTE {
            let (from, bytes) = (long(&segment, 8), long(&segment, 32));
            let mut notes = vec![0; bytes.min(NOTES) as usize];
            core.read_exact_at(&mut notes, from)?;
            return Ok(noted(&notes));
        }
    }
    Ok(None)
}

/// Finds the process number in the note `NT_PRPSINFO`.
fn noted(mut notes: &[u8]) -> Option<Pid> {
    const ABOUT: u32 = 3;
    /// The offset of `pr_pid` in `struct elf_prpsinfo`.
    const PID: usize = 24;
    let padded = |bytes: u32| (bytes as usize).next_multiple_of(4);
    while notes.len() >= 12 {
        let [name, text, kind] = [0, 4, 8].map(|at| word(notes, at));
        let from = 12 + padded(name);
        let note = notes.get(from..)?;
        if kind == ABOUT && notes[12..].starts_with(b"CORE\0") {
            let pid = note.get(PID..PID + 4)?;
            return Pid::try_from(word(pid, 0)).ok();
        }
        notes = note.get(padded(text)..)?;
    }
    None
}

fn short(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from(short(bytes, at)) | u32::from(short(bytes, at + 2)) << 16
}

fn long(bytes: &[u8], at: usize) -> u64 {
    u64::from(word(bytes, at)) | u64::from(word(bytes, at + 4)) << 32
}

/// Renames a core file. If the name is taken by an older core, the process number is added.
fn renamed(core: &Path, dumped: &Dumped) -> Option<PathBuf> {
    let Dumped { rank, pid, .. } = dumped;
    let names = [format!("core.rank{rank}"), format!("core.rank{rank}.{pid}")];
    for name in names {
        let new = core.with_file_name(name);
        // link(2) fails if the name exists, while rename(2) would replace the file.
        match fs::hard_link(core, &new) {
            Ok(()) => return fs::remove_file(core).ok().map(|()| new),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            // Some file systems have no hard links.
            Err(_) if !new.exists() => return fs::rename(core, &new).ok().map(|()| new),
            Err(_) => {}
        }
    }
    None
}

/// Returns the part of a message about a rank's core file.
pub fn describe(dumped: bool, place: Option<&Path>) -> String {
    match (dumped, place) {
        (_, Some(place)) => format!(", core dumped to {}", place.display()),
        (true, None) => ", core dumped".to_owned(),
        (false, None) => String::new(),
    }
}

/// Returns the line about further core files; empty if there are none.
pub fn describe_others(places: &[PathBuf]) -> String {
    let all: Vec<String> = places
        .iter()
        .map(|place| place.display().to_string())
        .collect();
    match all.is_empty() {
        true => String::new(),
        false => format!("\nfurther core files: {}", all.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fits(pattern: &str, adds_pid: bool, folder: &str, name: &str) -> bool {
        let found = split(pattern.as_bytes(), adds_pid, 42);
        found.is_some_and(|(place, file)| {
            place == folder.as_bytes() && matches(&file, name.as_bytes())
        })
    }

    #[test]
    fn patterns_of_the_kernel_are_read() {
        assert!(fits("core", false, "", "core"));
        assert!(fits("core", true, "", "core.42"));
        assert!(!fits("core", true, "", "core"));
        assert!(fits("core.%p", true, "", "core.42"));
        assert!(!fits("core.%p", true, "", "core.43"));
        assert!(fits(
            "/var/cores/core-%e-%s.%p",
            false,
            "/var/cores/",
            "core-a.out-11.42"
        ));
        assert!(!fits(
            "/var/cores/core-%e.%p",
            false,
            "/var/cores/",
            "core-a.out.421"
        ));
        assert!(fits("100%%%", false, "", "100%"));
        for none in [
            "|/usr/bin/catch %p",
            "@/run/socket",
            "",
            "/cores/%e/core",
            "cores/",
        ] {
            assert_eq!(split(none.as_bytes(), false, 42), None, "{none}");
        }
    }

    fn core_of(pid: u32) -> Vec<u8> {
        let mut note = Vec::new();
        for word in [5_u32, 8, 1] {
            note.extend(word.to_le_bytes());
        }
        note.extend(b"CORE\0\0\0\0status..");
        for word in [5_u32, 136, 3] {
            note.extend(word.to_le_bytes());
        }
        note.extend(b"CORE\0\0\0\0");
        let mut about = [0; 136];
        about[24..28].copy_from_slice(&pid.to_le_bytes());
        note.extend(about);
        let mut file = vec![0; 64 + 56];
        file[..6].copy_from_slice(b"\x7fELF\x02\x01");
        file[16] = 4;
        file[32] = 64;
        file[54] = 56;
        file[56] = 1;
        file[64] = 4;
        file[72] = 120;
        file[64 + 32] = note.len() as u8;
        file.extend(note);
        file
    }

    #[test]
    fn only_the_process_s_own_core_gets_the_name() {
        let dir = tempfile::tempdir().unwrap();
        let core = dir.path().join("core");
        let dumped = |pid, since| Dumped {
            pid,
            rank: 3,
            folder: dir.path(),
            since,
        };
        let now = SystemTime::now();
        fs::write(&core, core_of(41)).unwrap();
        assert_eq!(
            named(&dumped(42, now), b"core", false),
            None,
            "of another process"
        );
        let later = now + Duration::from_secs(60);
        assert_eq!(
            named(&dumped(41, later), b"core", false),
            None,
            "of one before"
        );
        assert_eq!(named(&dumped(41, now), b"|catch", false), None);
        let first = dir.path().join("core.rank3");
        assert_eq!(named(&dumped(41, now), b"core", false), Some(first.clone()));
        fs::write(&core, core_of(42)).unwrap();
        let second = dir.path().join("core.rank3.42");
        assert_eq!(named(&dumped(42, now), b"core", false), Some(second));
        assert_eq!(fs::read(&first).unwrap(), core_of(41));
        fs::write(&core, "no core at all").unwrap();
        assert_eq!(named(&dumped(42, now), b"core", false), None);
        fs::remove_file(&core).unwrap();
        std::os::unix::fs::symlink(&first, &core).unwrap();
        assert_eq!(named(&dumped(41, now), b"core", false), None, "a link");
        assert!(!core.exists() || first.exists());
    }

    #[test]
    fn what_is_cut_off_is_nobody_s() {
        let whole = core_of(42);
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("core");
        for length in 0..whole.len() {
            fs::write(&path, &whole[..length]).unwrap();
            let found = process(&File::open(&path).unwrap());
            assert!(!matches!(found, Ok(Some(_))), "{length}");
        }
        fs::write(&path, &whole).unwrap();
        assert_eq!(process(&File::open(&path).unwrap()).unwrap(), Some(42));
    }
}
