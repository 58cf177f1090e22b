//! Tests ranks of one machine in containers and under limits: each with namespaces of its own, as another
//! user, under a filter of system calls, or with little of what jobs use.
//!
//! Each row of the table runs with shared memory, and with TCP alone. The job succeeds, or fails with a line
//! that helps. Ranks inherit the memory that they share from `mpiexec`; without it they use TCP and print one
//! warning.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use libtest_mimic::Trial;
use weft_needs::{CGROUPS, CONTAINERS, HYDRA, NAMESPACES, Need};

use crate::company::Company;
use crate::job::{TIMED_OUT, clear};
use crate::launchers::tool;
use crate::outcome::Outcome;
use crate::program::Case;
use crate::room::Room;
use crate::{Result, lacks, patience, prefix, timed};

const SAID: &str = "can't open each other's shared memory (containers, user namespaces, or an executable that users \
                    can't read) and use tcp instead";

/// The expected end of a job.
#[derive(Clone, Copy)]
enum End {
    /// All is well, and all ranks share memory.
    Together,
    /// All is well, though no ranks share memory.
    Apart,
    /// The job fails with this line.
    Refused(&'static str),
}

use End::{Apart, Refused, Together};

/// A wall around the launcher or around each rank.
struct Wall {
    /// Words before those of the command, for a shell.
    under: &'static str,
    /// Commands of a shell that the wall stands around.
    inside: &'static str,
}

const NO_WALL: Wall = wall("", "");

const fn wall(under: &'static str, inside: &'static str) -> Wall {
    Wall { under, inside }
}

impl Wall {
    /// Returns the words that run a command within the wall.
    fn words(&self) -> [String; 4] {
        let script = match self.inside {
            "" => format!("exec {} \"$@\"", self.under),
            inside => format!(
                "exec {} sh -c '{inside}\nexec \"$@\"' sh \"$@\"",
                self.under
            ),
        };
        ["sh".into(), "-c".into(), script, "sh".into()]
    }
}

/// A row of the table: name, walls around the launcher and each rank, the ends with shared memory and
/// with TCP alone.
type Row = (&'static str, Wall, Wall, [End; 2]);

const fn job(name: &'static str, wall: Wall, ends: [End; 2]) -> Row {
    (name, wall, NO_WALL, ends)
}

const fn ranks(name: &'static str, wall: Wall, ends: [End; 2]) -> Row {
    (name, NO_WALL, wall, ends)
}

const NO_INTERFACE: &str =
    "no network interface that is up and has an address (not even lo): ip link set lo up";
const OTHER_NETWORK: &str = "connection refused (has the process ended, or a network of its own?)";

const NOBODY: &str = "setpriv --reuid 65534 --regid 65534 --clear-groups env HOME=/";
/// A user namespace may mount a /proc only if nothing hides a part of the one that it sees, as the room does.
const WHOLE_PROC: &str = "if mountpoint -q /proc/kallsyms; then umount /proc/kallsyms; fi; \
                          set -- unshare -U -r -p -f -m -i -u --mount-proc \"$@\"";
const READ_ONLY: &str = "for on in / /dev/shm \"$TMPDIR\"; do \
                         mount -o remount,bind,ro \"$on\"; done";
const LIKE_GVISOR: &str = "$DENY ENOSYS membarrier futex_waitv pidfd_open statx clone3 openat2 rseq close_range \
                           move_pages EPERM process_vm_readv process_vm_writev ptrace kcmp perf_event_open mbind \
                           set_mempolicy sched_setaffinity --";

/// Takes the inherited memory away, as wrappers do that close descriptors and reset variables (sudo).
const WITHOUT: &str = "env -u WEFT_NODE_MEMORY unshare -U -r";

/// Cables from the ranks' networks to a switch in the launcher's. The parent of a rank is mpiexec.
const SWITCH: &str = "ip link add weft0 type bridge; ip addr add 10.98.7.1/24 dev weft0; \
                      ip link set weft0 up; ip link set lo up";
const CABLE: &str = "ip link add eth0 type veth peer name w$PMI_RANK netns $PPID; ip link set eth0 up; \
                     ip addr add 10.98.7.1$PMI_RANK/24 dev eth0; \
                     nsenter -t $PPID -n ip link set w$PMI_RANK master weft0 up";

macro_rules! chroot {
    ($left_out:literal) => {
        concat!(
            "mount -t tmpfs none /mnt; cd /mnt; for name in $(ls /); do case $name in mnt",
            $left_out,
            ") ;; *) if [ -h /$name ]; then cp -P /$name .; elif [ -d /$name ]; then mkdir $name; \
             mount --rbind /$name $name; fi ;; esac; done; set -- chroot /mnt \"$@\""
        )
    };
}

const TABLE: &[Row] = &[
    ranks("user", wall("unshare -U -r", ""), [Together, Together]),
    ranks(
        "pid",
        wall("unshare -p -f --mount-proc", ""),
        [Together, Together],
    ),
    ranks("pid-only", wall("unshare -p -f", ""), [Together, Together]),
    ranks(
        "name",
        wall("unshare -u", "hostname h$$"),
        [Together, Together],
    ),
    ranks("user-without", wall(WITHOUT, ""), [Apart, Apart]),
    ranks("ipc", wall("unshare -i", ""), [Together, Together]),
    ranks("all", wall("unshare -m", WHOLE_PROC), [Together, Together]),
    job(
        "net",
        wall("unshare -n", "ip link set lo up"),
        [Together, Together],
    ),
    job(
        "net-down",
        wall("unshare -n", ""),
        [Together, Refused(NO_INTERFACE)],
    ),
    ranks(
        "nets-down",
        wall("unshare -n", ""),
        [Together, Refused(NO_INTERFACE)],
    ),
    ranks(
        "nets",
        wall("unshare -n", "ip link set lo up"),
        [Together, Refused(OTHER_NETWORK)],
    ),
    (
        "cables",
        wall("unshare -n", SWITCH),
        wall("unshare -n", CABLE),
        [Together, Together],
    ),
    ranks(
        "shm",
        wall("unshare -m", "mount -t tmpfs none /dev/shm"),
        [Together, Together],
    ),
    ranks(
        "tmp",
        wall("unshare -m", "mount -t tmpfs none \"$TMPDIR\""),
        [Together, Together],
    ),
    ranks(
        "shm-and-tmp",
        wall(
            "unshare -m",
            "mount -t tmpfs none /dev/shm; mount -t tmpfs none \"$TMPDIR\"",
        ),
        [Together, Together],
    ),
    ranks(
        "no-proc",
        wall(
            "unshare -m",
            "while umount -l /proc 2> /dev/null; do :; done",
        ),
        [Together, Together],
    ),
    ranks(
        "no-sys",
        wall(
            "unshare -m",
            "while umount -l /sys 2> /dev/null; do :; done",
        ),
        [Together, Together],
    ),
    ranks(
        "read-only",
        wall("unshare -m", READ_ONLY),
        [Together, Together],
    ),
    ranks(
        "chroot",
        wall("unshare -m", chroot!("")),
        [Together, Together],
    ),
    ranks(
        "chroot-bare",
        wall("unshare -m", chroot!("|proc|sys|dev|tmp|run")),
        [Together, Together],
    ),
    ranks("other-user", wall(NOBODY, ""), [Together, Together]),
    ranks(
        "users",
        wall(
            "setpriv --reuid $((65520 + PMI_RANK)) --regid 65534 --clear-groups env HOME=/",
            "",
        ),
        [Together, Together],
    ),
    ranks(
        "unreadable",
        wall(NOBODY, "shift; set -- \"$UNREADABLE\" \"$@\""),
        [Together, Together],
    ),
    ranks(
        "setgid",
        wall(NOBODY, "shift; set -- \"$SETGID\" \"$@\""),
        [Together, Together],
    ),
    ranks(
        "no-privileges",
        wall(
            "setpriv --no-new-privs --bounding-set=-all --inh-caps=-all",
            "",
        ),
        [Together, Together],
    ),
    ranks(
        "no-memfd",
        wall("$DENY memfd_create --", ""),
        [Together, Together],
    ),
    ranks(
        "no-cma",
        wall("$DENY process_vm_readv process_vm_writev --", ""),
        [Together, Together],
    ),
    ranks("like-gvisor", wall(LIKE_GVISOR, ""), [Together, Together]),
    job(
        "half-core",
        wall("env ON=cpu", weft_needs::CGROUP),
        [Together, Together],
    ),
    job(
        "memory",
        wall("env ON=memory", weft_needs::CGROUP),
        [Together, Together],
    ),
    job(
        "little-shm",
        wall("unshare -m", "mount -t tmpfs -o size=1m none /dev/shm"),
        [Together, Together],
    ),
    job(
        "descriptors",
        wall("prlimit --nofile=64", ""),
        [Together, Together],
    ),
    job(
        "file-size",
        wall("prlimit --fsize=8000000", ""),
        [Together, Together],
    ),
    ranks(
        "address-space",
        wall("prlimit --as=600000000", ""),
        [Together, Together],
    ),
    ranks(
        "locked-memory",
        wall("prlimit --memlock=0", ""),
        [Together, Together],
    ),
];

/// Lists the tests.
pub fn trials() -> Vec<Trial> {
    let trial = |name: &str, needs: &[&'static Need], test: Box<dyn FnOnce() -> Result + Send>| {
        let left_out = lacks::any(name, needs);
        timed(name.to_owned(), Company::Any, test).with_ignored_flag(left_out)
    };
    let needs: &[&'static Need] = &[&CONTAINERS];
    let mut trials = vec![
        trial("containers/mixed/4", needs, Box::new(mixed)),
        trial("containers/no-way/3", needs, Box::new(no_way)),
        trial("containers/loss/3", needs, Box::new(loss)),
        trial("containers/nested/4", &[&HYDRA], Box::new(nested)),
        trial(
            "containers/hydra/3",
            &[&CONTAINERS, &HYDRA],
            Box::new(by_hydra),
        ),
    ];
    for row in TABLE {
        let mut needs = vec![&CONTAINERS];
        match row.0 {
            "cables" => needs.push(&NAMESPACES),
            "half-core" | "memory" => needs.push(&CGROUPS),
            _ => {}
        }
        for (transport, end) in ["shm", "tcp"].into_iter().zip(row.3) {
            let name = format!("containers/{}/{transport}", row.0);
            trials.push(trial(
                &name,
                &needs,
                Box::new(move || run(row, transport, end)),
            ));
        }
    }
    trials
}

/// The program, and copies of it that users can't read.
struct Programs {
    plain: PathBuf,
    unreadable: PathBuf,
    setgid: PathBuf,
}

/// Compiles the program and makes its copies on the first call.
fn programs() -> Result<&'static Programs> {
    static MADE: OnceLock<Result<Programs>> = OnceLock::new();
    let made = MADE.get_or_init(|| {
        let plain = tool("contained")?;
        let copy = |name: &str, group: Option<u32>, mode: u32| -> Result<PathBuf> {
            let path = plain.with_file_name(format!("contained-{name}"));
            // The kernel hides the memory of such a process from its own user.
            fs::copy(&plain, &path)
                .and_then(|_| chown(&path, None, group))
                .and_then(|()| fs::set_permissions(&path, fs::Permissions::from_mode(mode)))
                .map_err(|error| format!("{}: {error}", path.display()))?;
            Ok(path)
        };
        Ok(Programs {
            unreadable: copy("unreadable", None, 0o711)?,
            setgid: copy("setgid", Some(65533), 0o2755)?,
            plain,
        })
    });
    made.as_ref().map_err(String::clone)
}

/// Runs three ranks in an isolation over a transport.
fn run((_, job, rank, _): &Row, transport: &str, end: End) -> Result {
    let (room, programs) = (Room::new()?, programs()?);
    let words = job.words();
    let mut command = room.command(words[0].as_ref());
    clear(&mut command);
    command
        .args(&words[1..])
        .arg(prefix::get()?.join("bin/mpiexec"));
    command.args(["-timeout", "30"]);
    if transport == "tcp" {
        command.args(["-genv", "WEFT_SHM", "0", "-genv", "WEFT_NETMOD", "tcp"]);
    }
    command.env("DENY", tool("deny")?);
    command
        .env("UNREADABLE", &programs.unreadable)
        .env("SETGID", &programs.setgid);
    let near = if matches!(end, Together) { "3" } else { "1" };
    command
        .args(["-n", "3"])
        .args(rank.words())
        .arg(&programs.plain)
        .arg(near);
    let outcome = Outcome::of(&mut command, patience(40.0))?;
    judge(&room, &outcome, transport, end)
}

/// Compares the end of a job with the expected one. One line names TCP, unless the user asked for it.
fn judge(room: &Room, outcome: &Outcome, transport: &str, end: End) -> Result {
    let leftovers = room.leftovers();
    if let Refused(line) = end {
        let is_refused =
            matches!(outcome.code(), Some(1..TIMED_OUT)) && outcome.stderr().contains(line);
        return match is_refused && leftovers.is_empty() {
            true => Ok(()),
            false => Err(format!(
                "exit code {:?} and {leftovers:?} left behind, expected is {line:?} in\n{}",
                outcome.code(),
                outcome.stderr()
            )),
        };
    }
    let said = usize::from(matches!(end, Apart) && transport == "shm");
    let case = Case {
        stdout: vec!["all is well".into()],
        stderr: vec![SAID.to_owned(); said],
        ..Case::default()
    };
    outcome.judge(&case, &leftovers)?;
    match outcome.stderr().matches(SAID).count() {
        count if count == said => Ok(()),
        count => Err(format!("it is said {count} times")),
    }
}

fn mpiexec(room: &Room) -> Result<Command> {
    let mut command = room.command(&prefix::get()?.join("bin/mpiexec"));
    clear(&mut command);
    command.args(["-timeout", "60"]);
    Ok(command)
}

/// Runs two ranks that share memory, and two in a container each that have lost it.
fn mixed() -> Result {
    let (room, program) = (Room::new()?, &programs()?.plain);
    let mut command = mpiexec(&room)?;
    command
        .args(["-n", "2"])
        .arg(program)
        .args(["2", ":", "-n", "2"]);
    command.args(WITHOUT.split(' ')).arg(program).arg("1");
    judge(
        &room,
        &Outcome::of(&mut command, patience(70.0))?,
        "shm",
        Apart,
    )
}

/// Two jobs of another launcher within a job share nothing, though their ranks inherit its memory.
fn nested() -> Result {
    let (room, program) = (Room::new()?, &programs()?.plain);
    let mut command = mpiexec(&room)?;
    command.args(["-n", "2", "/usr/bin/mpiexec.hydra", "-n", "2"]);
    command.arg(program).arg("2");
    let outcome = Outcome::of(&mut command, patience(70.0))?;
    let case = Case {
        stdout: vec!["all is well\nall is well\n".into()],
        ..Case::default()
    };
    outcome.judge(&case, &room.leftovers())
}

/// The end of a process is noticed though no other one sees its pid.
fn loss() -> Result {
    let (room, program) = (Room::new()?, &programs()?.plain);
    let mut command = mpiexec(&room)?;
    command.args(["-disable-auto-cleanup", "-n", "3", "unshare", "-p", "-f"]);
    command.arg(program).args(["3", "lose"]);
    let outcome = Outcome::of(&mut command, patience(70.0))?;
    let case = Case {
        exit: 7,
        stdout: vec!["all is well".into()],
        stderr: vec!["the others go on".into()],
        ..Case::default()
    };
    outcome.judge(&case, &room.leftovers())
}

fn by_hydra() -> Result {
    let (room, program) = (Room::new()?, &programs()?.plain);
    let mut command = room.command(Path::new("/usr/bin/mpiexec.hydra"));
    clear(&mut command);
    command.env("MPIEXEC_TIMEOUT", "60");
    command
        .args(["-n", "3", "unshare", "-U", "-r"])
        .arg(program)
        .arg("1");
    judge(
        &room,
        &Outcome::of(&mut command, patience(70.0))?,
        "shm",
        Apart,
    )
}

/// Without another transport the first call that needs one must end the job, in each combined call.
fn no_way() -> Result {
    let (room, program) = (Room::new()?, &programs()?.plain);
    let mut command = mpiexec(&room)?;
    command.args(["-genv", "WEFT_NETMOD", "none", "-n", "3"]);
    command.args(WITHOUT.split(' ')).arg(program).arg("1");
    let outcome = Outcome::of(&mut command, patience(70.0))?;
    let case = Case {
        exit: 101,
        stderr: vec![
            "no transport of this rank reaches it: no transport between nodes is open: WEFT_NETMOD=none"
                .into(),
        ],
        ..Case::default()
    };
    outcome.judge(&case, &room.leftovers())
}
