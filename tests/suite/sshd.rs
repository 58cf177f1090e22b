//! Emulated hosts with ssh: network namespaces with private names and files and an sshd each.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::hosts::Hosts;
use crate::prefix;
use crate::{Result, patience};

/// Port of the sshds.
const PORT: u16 = 2222;

/// Hosts with an sshd each, removed when dropped.
pub struct Cluster {
    pub hosts: Hosts,
    count: usize,
    dir: PathBuf,
    daemons: Vec<Child>,
}

fn run(command: &mut Command) -> Result {
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("{command:?}: {error}"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!(
            "{command:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        )),
    }
}

impl Cluster {
    pub fn start(count: usize) -> Result<Cluster> {
        let hosts = Hosts::new(count)?;
        let dir = prefix::target()?.join("test-rooms");
        let dir = dir.join(format!("{}-ssh", hosts.name(0)));
        let failed = |error| format!("{}: {error}", dir.display());
        fs::create_dir_all(&dir).map_err(failed)?;
        let mut cluster = Cluster {
            hosts,
            count,
            dir: dir.clone(),
            daemons: Vec::new(),
        };
        for key in ["host", "user"] {
            let mut command = Command::new("ssh-keygen");
            command.args(["-q", "-t", "ed25519", "-N", "", "-f"]);
            run(command.arg(dir.join(key)))?;
        }
        let file = |name: &str| dir.join(name).display().to_string();
        let sshd = format!(
            "Port {PORT}\nHostKey {}\nAuthorizedKeysFile {}\nPidFile none\nUsePAM no\n\
             StrictModes no\nPasswordAuthentication no\nPermitRootLogin yes\nMaxStartups 200\n\
             LogLevel ERROR\nPrintMotd no\nUseDNS no\n",
            file("host"),
            file("user.pub"),
        );
        let ssh = format!(
            "Host *\nPort {PORT}\nIdentityFile {}\nIdentitiesOnly yes\nUserKnownHostsFile /dev/null\n\
             StrictHostKeyChecking no\n",
            file("user"),
        );
        let names = (0..count).map(|n| format!("{} {}\n", Hosts::address(n), cluster.name(n)));
        let names: String = names.collect();
        fs::write(dir.join("sshd_config"), sshd).map_err(failed)?;
        fs::write(dir.join("ssh_config"), ssh).map_err(failed)?;
        fs::write(dir.join("names"), format!("127.0.0.1 localhost\n{names}")).map_err(failed)?;
        for host in 0..count {
            let mut command = cluster.within(host);
            command.args(["/usr/sbin/sshd", "-D", "-f"]);
            command.arg(dir.join("sshd_config"));
            command.stdin(Stdio::null()).stdout(Stdio::null());
            let daemon = command.spawn().map_err(|error| format!("sshd: {error}"))?;
            cluster.daemons.push(daemon);
        }
        let until = Instant::now() + patience(10.0);
        for host in 0..count {
            let listens = || {
                let mut command = Command::new("ip");
                command.args(["netns", "exec", cluster.name(host), "ss", "-Hltn"]);
                let output = command.output();
                output.is_ok_and(|o| String::from_utf8_lossy(&o.stdout).contains(":2222"))
            };
            while !listens() {
                if Instant::now() >= until {
                    return Err("an sshd does not listen".to_owned());
                }
                thread::sleep(Duration::from_millis(20));
            }
        }
        Ok(cluster)
    }

    pub fn name(&self, host: usize) -> &str {
        self.hosts.name(host)
    }

    /// Returns the names of all hosts, separated by commas.
    pub fn names(&self) -> String {
        let names: Vec<&str> = (0..self.count).map(|host| self.name(host)).collect();
        names.join(",")
    }

    /// Returns a folder that all hosts share.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns a command to be completed with words to run on a host. `/run` is private there, and
    /// shells started by sshd read no files of the user.
    pub fn within(&self, host: usize) -> Command {
        let script = "hostname \"$1\" && mount -t tmpfs none /run && mkdir /run/sshd && \
                      mount --bind \"$2\" /etc/hosts && shift 2 && \
                      { [ ! -f ~/.bashrc ] || mount --bind /dev/null ~/.bashrc; } && exec \"$@\"";
        let mut command = Command::new("ip");
        command.args(["netns", "exec", self.name(host)]);
        command.args(["unshare", "--uts", "--mount", "sh", "-c", script, "sh"]);
        command.arg(self.name(host)).arg(self.dir.join("names"));
        command
    }

    /// Returns Weft's mpiexec on the first host, with this cluster's ssh.
    pub fn mpiexec(&self) -> Result<Command> {
        let mut command = self.within(0);
        command.arg(prefix::get()?.join("bin/mpiexec"));
        command.arg("-bootstrap-exec-args");
        command.arg(format!("-F {}", self.dir.join("ssh_config").display()));
        crate::job::clear(&mut command);
        command.env("TMPDIR", &self.dir).current_dir(&self.dir);
        Ok(command)
    }

    /// Returns the processes on a host except sshd, with their command lines.
    pub fn processes(&self, host: usize) -> Vec<(u32, String)> {
        let mut command = Command::new("ip");
        let output = command.args(["netns", "pids", self.name(host)]).output();
        let text = output.map_or_else(
            |_| String::new(),
            |o| String::from_utf8_lossy(&o.stdout).into_owned(),
        );
        let line = |pid: &str| {
            let words = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
            let words = String::from_utf8_lossy(&words).replace('\0', " ");
            let other = !words.is_empty() && !words.contains("sshd");
            other.then_some((pid.parse().ok()?, words))
        };
        text.split_whitespace().filter_map(line).collect()
    }

    /// Waits until only the sshds run and returns the time that it took.
    pub fn gone(&self, limit: f64) -> Result<Duration> {
        let began = Instant::now();
        loop {
            let left: Vec<_> = (0..self.count)
                .flat_map(|host| self.processes(host))
                .collect();
            if left.is_empty() {
                return Ok(began.elapsed());
            }
            if began.elapsed() > patience(limit) {
                return Err(format!("after {limit} s these are left: {left:?}"));
            }
            thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for host in 0..self.count {
            for (pid, _) in self.processes(host) {
                let _ = Command::new("kill").args(["-9", &pid.to_string()]).status();
            }
        }
        for daemon in &mut self.daemons {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
        let _ = fs::remove_dir_all(&self.dir);
    }
}
