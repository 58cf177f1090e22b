//! Runs a program as Flux does: a stand-in of its PMI-1 server (Flux RFC 13), since Debian has no Flux.
//! It answers the commands of that document only; any other one ends the connection.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::sync::{Arc, Barrier, Mutex, PoisonError};
use std::thread;

use crate::job::clear;
use crate::launchers::program;
use crate::outcome::Outcome;
use crate::program::Case;
use crate::room::Room;
use crate::{Result, patience};

const SIZE: usize = 4;
/// The name of the job's key-value store: Flux writes job numbers so.
const KVS: &str = "ƒ2oGDkqxy";

/// The server of all ranks.
struct Flux {
    pairs: Mutex<HashMap<String, String>>,
    barrier: Barrier,
}

/// Returns the value of a word `key=value`; that of `value=` goes to the end of the line.
fn word<'a>(line: &'a str, key: &str) -> &'a str {
    let found = line.split_once(&format!("{key}="));
    let rest = found.map_or("", |(_, rest)| rest);
    match key {
        "value" => rest,
        _ => rest.split(' ').next().unwrap_or_default(),
    }
}

impl Flux {
    /// Serves a rank until it ends. Returns a command that Flux does not know.
    fn serve(&self, socket: &UnixStream) -> Option<String> {
        let mut writer = socket;
        for line in BufReader::new(socket).lines().map_while(|line| line.ok()) {
            let answer = match word(&line, "cmd") {
                "init" => "cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=1".to_owned(),
                "get_maxes" => {
                    "cmd=maxes rc=0 kvsname_max=64 keylen_max=64 vallen_max=1024".to_owned()
                }
                "get_appnum" => "cmd=appnum rc=0 appnum=0".to_owned(),
                "get_universe_size" => format!("cmd=universe_size rc=0 size={SIZE}"),
                "get_my_kvsname" => format!("cmd=my_kvsname rc=0 kvsname={KVS}"),
                "put" => {
                    let (key, value) = (word(&line, "key"), word(&line, "value"));
                    self.pairs().insert(key.to_owned(), value.to_owned());
                    "cmd=put_result rc=0".to_owned()
                }
                "get" => match self.pairs().get(word(&line, "key")) {
                    Some(value) => format!("cmd=get_result rc=0 value={value}"),
                    None => "cmd=get_result rc=-1".to_owned(),
                },
                "barrier_in" => {
                    self.barrier.wait();
                    "cmd=barrier_out rc=0".to_owned()
                }
                "finalize" => "cmd=finalize_ack rc=0".to_owned(),
                _ => return Some(line),
            };
            if writer.write_all(format!("{answer}\n").as_bytes()).is_err() {
                break;
            }
        }
        None
    }

    fn pairs(&self) -> std::sync::MutexGuard<'_, HashMap<String, String>> {
        self.pairs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs four ranks.
pub fn four_ranks() -> Result {
    let mapping = format!("(vector,(0,1,{SIZE}))");
    let flux = Arc::new(Flux {
        pairs: Mutex::new(HashMap::from([("PMI_process_mapping".to_owned(), mapping)])),
        barrier: Barrier::new(SIZE),
    });
    let rooms: Vec<Room> = (0..SIZE).map(|_| Room::new()).collect::<Result<_>>()?;
    let program = program()?;
    let rank = |rank: usize, room: &Room| -> Result {
        let failed = |error: std::io::Error| error.to_string();
        let (ours, theirs) = UnixStream::pair().map_err(failed)?;
        // Mount namespaces do not matter to ranks of one node, and each room has its own.
        let mut command = room.command(&program);
        clear(&mut command);
        let fd = theirs.as_raw_fd();
        command.env("PMI_FD", fd.to_string());
        command.env("PMI_RANK", rank.to_string());
        command.env("PMI_SIZE", SIZE.to_string());
        command.env("FLUX_JOB_ID", KVS);
        // SAFETY: between fork and exec the closure makes one system call, which passes no memory.
        unsafe {
            command.pre_exec(move || {
                libc::fcntl(fd, libc::F_SETFD, 0);
                Ok(())
            })
        };
        let flux = flux.clone();
        let serving = thread::spawn(move || flux.serve(&ours));
        let outcome = Outcome::of(&mut command, patience(60.0));
        drop(theirs);
        let unknown = serving
            .join()
            .map_err(|_| "the server has panicked".to_owned())?;
        if let Some(line) = unknown {
            return Err(format!(
                "rank {rank} sent '{line}', which Flux does not know"
            ));
        }
        let case = Case {
            stdout: vec![format!("rank {rank} of {SIZE}, {SIZE} here")],
            ..Case::default()
        };
        outcome?.judge(&case, &room.leftovers())
    };
    thread::scope(|scope| {
        let (rank, rooms) = (&rank, &rooms);
        let all: Vec<_> = (0..SIZE)
            .map(|one| scope.spawn(move || rank(one, &rooms[one])))
            .collect();
        all.into_iter().try_for_each(|one| {
            one.join()
                .unwrap_or(Err("a rank's thread has panicked".to_owned()))
        })
    })
}
