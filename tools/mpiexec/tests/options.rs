//! What the options do, and what ranks find when they start.

mod support;

use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;
use std::time::Duration;

use support::{mpiexec, run, shell, start, start_with_input};

#[test]
fn help_version_and_info() {
    for name in ["-h", "--help"] {
        let outcome = run(&[name]);
        outcome.expect(0);
        assert!(outcome.out.contains("-bind-to hwthread|core|"));
        let topic = run(&[name, "tools"]);
        assert!(topic.expect(0).out.contains("-trace"));
        assert!(!topic.out.contains("-bind-to") && outcome.out.contains(&topic.out));
    }
    run(&["--help", "moon"]).expect(2).says("not 'moon'");
    assert!(
        run(&["-version"])
            .expect(0)
            .out
            .starts_with("mpiexec (Weft) ")
    );
    let info = run(&["--info"]);
    assert!(info.expect(0).out.contains("cores:"));
    assert!(info.out.contains("library:"), "{}", info.out);
}

#[test]
fn each_rank_has_its_files() {
    let dir = tempfile::tempdir().unwrap();
    let pattern = |name: &str| dir.path().join(name).display().to_string();
    shell(
        &[
            "-outfile-pattern",
            &pattern("out.%r"),
            "-errfile-pattern",
            &pattern("err"),
            "-n",
            "2",
        ],
        "echo out $PMI_RANK; echo err $PMI_RANK >&2",
    )
    .expect(0);
    let read = |name: &str| std::fs::read_to_string(dir.path().join(name)).unwrap();
    assert_eq!(
        (read("out.0"), read("out.1")),
        ("out 0\n".into(), "out 1\n".into())
    );
    let err = read("err");
    let mut both: Vec<_> = err.lines().collect();
    both.sort_unstable();
    assert_eq!(both, ["err 0", "err 1"]);
    run(&["-outfile-pattern", "/nowhere/at/all", "true"])
        .expect(126)
        .says("'/nowhere/at/all'");
}

fn os(bytes: &[u8]) -> OsString {
    OsString::from_vec(bytes.to_vec())
}

/// Programs, arguments, folders, files and variables are bytes, as they are for the system; on several hosts, too.
#[test]
fn words_need_not_be_utf_8() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join(OsStr::from_bytes(b"f\xff"));
    std::fs::create_dir(&folder).unwrap();
    let program = folder.join(OsStr::from_bytes(b"p\xf6"));
    let script = "#!/bin/sh\nprintf '%s\\n' \"${0##*/}\" \"$@\" \"$A\" \"$B\" \"$C\" \"$D\" \"${PWD##*/}\"\n";
    // Written by another process: one that is started here meanwhile could hold the file open.
    let mut writer = std::process::Command::new("sh")
        .args(["-c", "cat > \"$0\" && chmod 755 \"$0\""])
        .arg(&program)
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Write::write_all(&mut writer.stdin.take().unwrap(), script.as_bytes()).unwrap();
    assert!(writer.wait().unwrap().success());
    let expected = b"p\xf6\n\xff\xfe\n\n a\xe4\n\xfa\n\xfb=\n\xfc\n\xfd\nf\xff\n";
    let words = [
        &b"-env"[..],
        b"A",
        b"\xfa",
        b"-env",
        b"B=\xfb=",
        b"-x",
        b"C=\xfc",
        b"-genv",
        b"D",
        b"\xfd",
        b"-wdir",
    ];
    let words = words.map(os).to_vec();
    let arguments = [&b"\xff\xfe"[..], b"", b" a\xe4"].map(os);
    let hosts = ["-bootstrap", "fork", "-hosts", "a,b"].map(OsString::from);
    for hosts in [&[][..], &hosts] {
        let out = dir.path().join(OsStr::from_bytes(b"o\xff.%r"));
        let mut command = mpiexec();
        command.args(hosts).args(["-n", "2", "-outfile-pattern"]);
        command.arg(out).args(&words).arg(&folder);
        command.arg("./p\u{fffd}").arg("x");
        let why = start(&mut command).finish();
        why.expect(127).says("'./p\u{fffd}' was not found");
        let out = dir.path().join(OsStr::from_bytes(b"o\xff.%r"));
        let mut command = mpiexec();
        command.args(hosts).args(["-n", "2", "-outfile-pattern"]);
        command.arg(out).args(&words).arg(&folder);
        command.arg(os(b"./p\xf6")).args(&arguments);
        start(&mut command).finish().expect(0);
        for rank in ["0", "1"] {
            let name = os(&[b"o\xff.", rank.as_bytes()].concat());
            assert_eq!(std::fs::read(dir.path().join(name)).unwrap(), expected);
        }
    }

    // The same in a file; the program is found by its folder.
    let file = dir.path().join(OsStr::from_bytes(b"c\xff"));
    let mut line = b"# \xe9\n-n 1 -outfile-pattern 'OUT' ".to_vec();
    for word in &words {
        line.extend([b"'", word.as_bytes(), b"' "].concat());
    }
    line.extend([b"'", folder.as_os_str().as_bytes(), b"' -path '"].concat());
    line.extend(
        [
            folder.as_os_str().as_bytes(),
            b"' p\xf6 \xff\xfe '' \" a\xe4\"\r\n",
        ]
        .concat(),
    );
    let out = dir.path().join(OsStr::from_bytes(b"d\xff/o"));
    std::fs::create_dir(out.parent().unwrap()).unwrap();
    let at = line.windows(3).position(|three| three == b"OUT").unwrap();
    line.splice(at..at + 3, out.as_os_str().as_bytes().iter().copied());
    std::fs::write(&file, line).unwrap();
    start(mpiexec().arg("-configfile").arg(&file))
        .finish()
        .expect(0);
    assert_eq!(std::fs::read(out).unwrap(), expected);

    // Variables by name, of which one is not UTF-8; output into a folder.
    let folder = dir.path().join(OsStr::from_bytes(b"g\xff%"));
    let mut command = mpiexec();
    command.env(os(b"V\xff"), os(b"\xfe")).env("W", "1");
    command.arg("-envlist").arg(os(b"W,V\xff,PATH"));
    command.arg("-output-filename").arg(&folder);
    start(command.arg("env")).finish().expect(0);
    let told = std::fs::read(folder.join("rank.0/stdout")).unwrap();
    let lines: Vec<&[u8]> = told.split(|byte| *byte == b'\n').collect();
    assert!(lines.contains(&&b"V\xff=\xfe"[..]) && lines.contains(&&b"W=1"[..]));
}

#[test]
fn mistakes_end_with_2_and_a_hint() {
    run(&["-nn", "2", "true"])
        .expect(2)
        .says("unknown option -nn; did you mean -n?");
    run(&[]).expect(2).says("no program");
    run(&["-n", "x", "true"])
        .expect(2)
        .says("option -n is 'x'; it must be a whole number");
    run(&["-n", "2"]).expect(2).says("no program");
}

#[test]
fn ranks_know_who_they_are() {
    let outcome = shell(
        &["-n", "2"],
        "echo $PMI_RANK $PMI_SIZE $PMI_SPAWNED $MPI_LOCALRANKID $MPI_LOCALNRANKS \
         $WEFT_LOCAL_RANK $WEFT_LOCAL_SIZE; test -S /proc/self/fd/$PMI_FD",
    );
    outcome.expect(0);
    assert_eq!(outcome.sorted(), ["0 2 0 0 2 0 2", "1 2 0 1 2 1 2"]);
    assert_eq!(shell(&[], "echo $PMI_SIZE").expect(0).out, "1\n");
    assert_eq!(shell(&["--np", "3"], "echo x").out, "x\nx\nx\n");
}

#[test]
fn sections_differ_in_all_they_can() {
    let outcome = run(&[
        "-genv",
        "A",
        "all",
        "-n",
        "2",
        "-env",
        "B",
        "first",
        "-wdir",
        "/",
        "sh",
        "-c",
        "echo $PMI_RANK/$PMI_SIZE $A-$B-$0 $(pwd)",
        "x",
        ":",
        "-wd",
        "/tmp",
        "sh",
        "-c",
        "echo $PMI_RANK/$PMI_SIZE $A-$B-$0 $(pwd)",
        "y z",
    ]);
    outcome.expect(0);
    assert_eq!(
        outcome.sorted(),
        [
            "0/3 all-first-x /",
            "1/3 all-first-x /",
            "2/3 all--y z /tmp"
        ]
    );
}

#[test]
fn environments_are_inherited_as_asked() {
    let count = |args: &[&str]| {
        let mut command = mpiexec();
        command.args(args).args([
            "sh",
            "-c",
            "echo ${SEEN_A-no} ${SEEN_B-no} ${SEEN_C-no} ${PMI_RANK-no} ${PMI_PORT-no} ${PMIX_RANK-no}",
        ]);
        command.env("SEEN_A", "a").env("SEEN_B", "b");
        // What a launcher above us has set is not for our ranks.
        command.env("PMI_PORT", "x:1").env("PMIX_RANK", "9");
        start(&mut command).finish().expect(0).out.trim().to_owned()
    };
    assert_eq!(count(&[]), "a b no 0 no no");
    assert_eq!(count(&["-envnone"]), "no no no 0 no no");
    assert_eq!(
        count(&["-genvnone", "-env", "SEEN_C", "c"]),
        "no no c 0 no no"
    );
    assert_eq!(count(&["-genvlist", "SEEN_A,SEEN_C"]), "a no no 0 no no");
    assert_eq!(count(&["-genvnone", "-envall"]), "a b no 0 no no");
    assert_eq!(count(&["-envlist", "SEEN_B"]), "no b no 0 no no");
    // A rank's own numbers can't be overwritten.
    assert_eq!(count(&["-genv", "PMI_RANK", "7"]), "a b no 0 no no");
}

#[test]
fn labels_stand_before_whole_lines() {
    // Both ranks write their lines in pieces, at the same time, and leave the last one open.
    let outcome = shell(
        &["-n", "2", "-l"],
        "for i in 1 2 3 4 5 6 7 8 9; do printf \"$PMI_RANK-\"; sleep 0.01; printf \"$i\\n\"; done; \
         printf 'no end'; echo problem >&2",
    );
    outcome.expect(0);
    for rank in 0..2 {
        let label = format!("[{rank}] ");
        let lines = outcome.out.lines().filter_map(|l| l.strip_prefix(&label));
        let mut expected: Vec<String> = (1..10).map(|i| format!("{rank}-{i}")).collect();
        expected.push("no end".to_owned());
        assert_eq!(lines.collect::<Vec<_>>(), expected, "in:\n{}", outcome.out);
    }
    assert_eq!(outcome.out.lines().count(), 20);
    assert!(outcome.out.ends_with('\n'));
    let mut err: Vec<&str> = outcome.err.lines().collect();
    err.sort_unstable();
    assert_eq!(err, ["[0] problem", "[1] problem"]);
}

#[test]
fn lines_without_labels_are_whole_too() {
    let outcome = shell(
        &["-n", "4"],
        "for i in 1 2 3 4 5; do printf \"$PMI_RANK-\"; sleep 0.1; printf \"$i\\n\"; done",
    );
    outcome.expect(0);
    for rank in 0..4 {
        let own = |line: &&str| line.starts_with(&format!("{rank}-"));
        let expected: Vec<String> = (1..6).map(|i| format!("{rank}-{i}")).collect();
        let lines: Vec<&str> = outcome.out.lines().filter(own).collect();
        assert_eq!(lines, expected, "in:\n{}", outcome.out);
    }
    assert_eq!(outcome.out.lines().count(), 20);
}

#[test]
fn a_question_is_passed_on_although_its_line_has_no_end() {
    let script = "[ $PMI_RANK = 0 ] && printf 'how many? '; exec sleep 30";
    let mut command = mpiexec();
    command.args(["-n", "2", "sh", "-c", script]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut asked = [0; 10];
    child.stdout.take().unwrap().read_exact(&mut asked).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(&asked, b"how many? ");
}

#[test]
fn output_without_labels_is_untouched() {
    let outcome = shell(&["-n", "1"], "printf 'a\\n\\nb'; printf 'e' >&2");
    assert_eq!((&outcome.out[..], &outcome.err[..]), ("a\n\nb", "e"));
}

#[test]
fn much_output_arrives_complete() {
    let outcome = shell(
        &["-n", "2"],
        "seq 1 200000 | sed s/^/$PMI_RANK./; sleep 0.01",
    );
    outcome.expect(0);
    assert_eq!(outcome.out.lines().count(), 400_000);
    for rank in 0..2 {
        let of_rank = outcome.out.matches(&format!("{rank}.")).count();
        assert_eq!(of_rank, 200_000);
    }
    let last = shell(&["-n", "2", "-l"], "seq 1 50000");
    assert_eq!(last.expect(0).out.lines().count(), 100_000);
    assert!(last.out.lines().all(|l| {
        let number = l.strip_prefix("[0] ").or_else(|| l.strip_prefix("[1] "));
        number.is_some_and(|n| n.parse::<u32>().is_ok())
    }));
}

#[test]
fn a_reader_that_leaves_ends_the_job() {
    let script = format!(
        "{} -n 2 yes | head -n 1; echo done",
        env!("CARGO_BIN_EXE_mpiexec")
    );
    let outcome = start(std::process::Command::new("sh").args(["-c", &script])).finish();
    assert_eq!(outcome.out, "y\ndone\n");
    outcome.says("SIGPIPE");
    assert!(outcome.took < Duration::from_secs(10), "{:?}", outcome.took);
}

#[test]
fn input_goes_to_rank_0() {
    let text: Vec<u8> = (0..100_000u32)
        .flat_map(|i| format!("{i}\n").into_bytes())
        .collect();
    let mut command = mpiexec();
    command.args([
        "-n",
        "3",
        "sh",
        "-c",
        "wc -c; test $PMI_RANK = 0 || readlink /proc/self/fd/0",
    ]);
    let outcome = start_with_input(&mut command, Some(text.clone())).finish();
    outcome.expect(0);
    let size = text.len().to_string();
    assert_eq!(
        outcome.sorted(),
        ["/dev/null", "/dev/null", "0", "0", &size]
    );

    // Who doesn't read it disturbs nobody.
    let mut command = mpiexec();
    command.args(["-n", "2", "true"]);
    start_with_input(&mut command, Some(text))
        .finish()
        .expect(0);
}

#[test]
fn a_terminal_is_read_for_rank_0() {
    if !weft_needs::TERMINALS.met() || !weft_needs::PYTHON.met() {
        return;
    }
    let script = r#"
import os, pty, sys
pid, fd = pty.fork()
if pid == 0:
    os.execv(sys.argv[1], ["mpiexec", "-n", "2", "sh", "-c", "read a && echo got $a; cat; true"])
os.write(fd, b"one\ntwo\n\x04")
text = b""
try:
    while True:
        piece = os.read(fd, 4096)
        if not piece:
            break
        text += piece
except OSError:
    pass
_, status = os.waitpid(pid, 0)
print(text.replace(b"\r", b"").decode(), os.waitstatus_to_exitcode(status))
"#;
    let mut command = std::process::Command::new("python3");
    command.args(["-c", script, env!("CARGO_BIN_EXE_mpiexec")]);
    let outcome = start(&mut command).finish();
    // The terminal's echo, then what rank 0 made of it.
    assert!(
        outcome.out.contains("got one\n"),
        "{}{}",
        outcome.out,
        outcome.err
    );
    assert_eq!(outcome.out.matches("two\n").count(), 2, "{}", outcome.out);
    assert!(outcome.out.trim_end().ends_with(" 0"), "{}", outcome.out);
}

#[test]
fn what_is_not_there_can_not_be_run() {
    let cases = [
        (
            &["-n", "2", "weft-no-such-program"][..],
            127,
            "'weft-no-such-program' was not found",
        ),
        (&["/weft/no/such"], 127, "'/weft/no/such' was not found"),
        (
            &["-wdir", "/weft/no/such", "true"],
            127,
            "directory '/weft/no/such'",
        ),
        (&["-wdir", "/etc/passwd", "true"], 127, "not a directory"),
        (&["/etc/passwd"], 126, "'/etc/passwd' can't be run"),
        (&["/tmp"], 126, "can't be run"),
        // Nothing is started if a later section is bad.
        (
            &["sh", "-c", "echo started", ":", "weft-no-such-program"],
            127,
            "not found",
        ),
    ];
    for (args, code, part) in cases {
        let outcome = run(args);
        outcome.expect(code).says(part);
        assert_eq!(outcome.out, "", "{args:?}");
    }
}

#[test]
fn a_program_that_the_kernel_refuses_leaves_nothing_running() {
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("program");
    std::fs::write(&program, "#!/weft/no/such/interpreter\n").unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let pids = dir.path().join("pids");
    let script = format!("echo $$ >> {}; sleep 100", pids.display());
    let outcome = run(&["sh", "-c", &script, ":", program.to_str().unwrap()]);
    outcome.expect(127).says("can't start rank 1");
    assert!(outcome.took < Duration::from_secs(5), "{:?}", outcome.took);
    let started = std::fs::read_to_string(pids).unwrap_or_default();
    for pid in started.split_whitespace() {
        assert!(!support::alive(pid));
    }
}

#[test]
fn programs_are_found_in_the_path_and_directory_given() {
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("weft-test-program");
    std::fs::write(&program, "#!/bin/sh\necho $0 ran\n").unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let dir = dir.path().to_str().unwrap();
    let path = format!("{dir}:/usr/bin:/bin");
    let outcome = run(&["-env", "PATH", &path, "weft-test-program"]);
    assert_eq!(
        outcome.expect(0).out,
        format!("{dir}/weft-test-program ran\n")
    );
    let outcome = run(&["-wdir", dir, "./weft-test-program"]);
    assert_eq!(outcome.expect(0).out, "./weft-test-program ran\n");
    run(&["-wdir", dir, "weft-test-program"])
        .expect(127)
        .says("write './weft-test-program'");
}

#[test]
fn ranks_are_bound_as_asked() {
    let cpus = |args: &[&str]| {
        let outcome = shell(args, "grep Cpus_allowed_list /proc/self/status | cut -f2");
        outcome.expect(0);
        outcome
            .sorted()
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
    };
    let all = cpus(&["-bind-to", "none"]).remove(0);
    let cores = run(&["-info"]);
    let cores = cores
        .out
        .lines()
        .find_map(|l| l.strip_prefix("cores:"))
        .unwrap();
    let cores: usize = cores.split_whitespace().next().unwrap().parse().unwrap();

    assert_eq!(cpus(&["-n", "3", "-bind-to", "none"]), vec![all.clone(); 3]);
    // One rank has everything, too many ranks share everything.
    assert_eq!(cpus(&[]), vec![all.clone(); 1]);
    let many = (cores + 1).to_string();
    assert_eq!(cpus(&["-n", &many]), vec![all.clone(); cores + 1]);
    // As many ranks as cores have one each, all different.
    let mut each = cpus(&["-n", &cores.to_string()]);
    each.dedup();
    assert_eq!(each.len(), cores);
    let mut each = cpus(&["-n", &many, "-bind-to", "core"]);
    each.dedup();
    assert_eq!(each.len(), cores, "in turn");

    // The mask that the launcher inherited is the limit.
    let first = each[0].split([',', '-']).next().unwrap();
    let mut command = std::process::Command::new("taskset");
    command.args([
        "-c",
        first,
        env!("CARGO_BIN_EXE_mpiexec"),
        "-bind-to",
        "core",
        "-n",
        "2",
    ]);
    command.args(["grep", "Cpus_allowed_list", "/proc/self/status"]);
    let outcome = start(&mut command).finish();
    let line = format!("Cpus_allowed_list:\t{first}\n");
    assert_eq!(outcome.expect(0).out, line.repeat(2));
}

#[test]
fn ranks_inherit_their_own_socket_and_memory_only() {
    // Descriptors that the test itself was given are inherited with and without a launcher.
    let lists = [
        ("ls -l /proc/self/fd | grep -c socket: || true", 1),
        ("ls -l /proc/self/fd | grep -c memfd:weft-node || true", 4),
        ("ls /proc/self/fd | wc -l", 5),
    ];
    for (list, own) in lists {
        let before = start(std::process::Command::new("sh").args(["-c", list])).finish();
        let before: usize = before.out.trim().parse().unwrap();
        let outcome = shell(&["-n", "4"], list);
        let expected = format!("{}\n", before + own).repeat(4);
        assert_eq!(outcome.expect(0).out, expected);
    }
}

/// The files of a host's memory take no descriptors that the job needs.
#[test]
fn few_descriptors_are_enough_for_many_ranks() {
    // Three for each rank, and the launcher's own.
    let script = format!(
        "ulimit -n 64; {} -n 12 sh -c 'echo x'",
        env!("CARGO_BIN_EXE_mpiexec")
    );
    let outcome = start(std::process::Command::new("sh").args(["-c", &script])).finish();
    assert_eq!(outcome.expect(0).out, "x\n".repeat(12));
}

/// So are variables that name files, and what lines start with.
#[test]
fn labels_and_paths_in_variables_are_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let hosts = dir.path().join(OsStr::from_bytes(b"h\xff"));
    std::fs::write(&hosts, "a\nb\n").unwrap();
    let with = |words: &[&OsStr]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_mpiexec"));
        command.env("HYDRA_HOST_FILE", &hosts);
        command
            .arg("-prepend-pattern")
            .arg(os(b"\xfb%r "))
            .args(words);
        let done = command
            .args(["echo", "x"].map(OsStr::new))
            .output()
            .unwrap();
        assert!(done.status.success(), "{}", done.stderr.escape_ascii());
        let mut lines: Vec<_> = done
            .stdout
            .split(|byte| *byte == b'\n')
            .map(<[u8]>::to_vec)
            .collect();
        lines.sort();
        lines.concat()
    };
    let fork = ["-launcher", "fork"].map(OsStr::new);
    assert_eq!(with(&fork), b"\xfb0 x\xfb1 x");
    let here = ["-hosts", "localhost", "-n", "2"].map(OsStr::new);
    assert_eq!(with(&here), b"\xfb0 x\xfb1 x");
}

#[test]
fn ranks_find_signals_as_the_launcher_did() {
    let masks = ["sh", "-c", "grep -E 'Sig(Blk|Ign)' /proc/self/status"];
    // Shells have background jobs of scripts ignore this one.
    for how in ["--default-signal=QUIT", "--ignore-signal=QUIT"] {
        let with = |launcher: &[&str]| {
            let mut command = std::process::Command::new("env");
            start(command.arg(how).args(launcher).args(masks)).finish()
        };
        let before = with(&[]);
        let mpiexec = env!("CARGO_BIN_EXE_mpiexec");
        assert_eq!(with(&[mpiexec]).expect(0).out, before.out, "{how}");
        let agents = with(&[mpiexec, "-launcher", "fork", "-hosts", "a,b", "-n", "2"]);
        assert_eq!(agents.expect(0).out, before.out.repeat(2), "{how}");
    }
}

#[test]
fn many_ranks_start_quickly() {
    let outcome = run(&["-n", "64", "true"]);
    outcome.expect(0);
    assert!(outcome.took < Duration::from_secs(5), "{:?}", outcome.took);
    let outcome = shell(&["-n", "300"], "echo x");
    assert_eq!(outcome.expect(0).out.len(), 600);
}

#[test]
fn a_low_limit_of_open_files_is_raised_for_us_alone() {
    let script = format!(
        "ulimit -Sn 50; {} -n 40 sh -c 'ulimit -Sn'",
        env!("CARGO_BIN_EXE_mpiexec")
    );
    let outcome = start(std::process::Command::new("bash").args(["-c", &script])).finish();
    assert_eq!(outcome.expect(0).out, "50\n".repeat(40));
}

#[test]
fn options_of_other_launchers_are_understood() {
    let script = "echo $A$B";
    let outcome = run(&[
        "--allow-run-as-root",
        "--oversubscribe",
        "--mca",
        "btl",
        "self",
        "--mca",
        "pml",
        "ob1",
        "-x",
        "A=1",
        "-genv",
        "B=2",
        "-perhost",
        "4",
        "-c",
        "2",
        "sh",
        "-c",
        script,
    ]);
    outcome.expect(0);
    assert_eq!(outcome.out, "12\n12\n");
    // Once, and only about what is lost.
    assert_eq!(outcome.err.lines().count(), 1, "{}", outcome.err);
    outcome.says("option -mca is ignored: ");
    let labelled = run(&["--tag-output", "echo", "x"]);
    assert_eq!(labelled.expect(0).out, "[0] x\n");
    run(&["--oversubscrib", "true"])
        .expect(2)
        .says("did you mean -oversubscribe?");
    run(&["--mca", "btl"]).expect(2);
}

/// A program that has loaded another MPI's library is alone on each rank, which is said; others aren't bothered.
#[test]
fn another_mpi_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let library = maps.lines().find(|line| line.contains("libgcc_s.so"));
    let library = library.and_then(|line| line.find('/').map(|at| &line[at..]));
    let other = dir.path().join("libmpi.so.99");
    std::fs::copy(library.unwrap(), &other).unwrap();
    let preload = format!("LD_PRELOAD={}", other.display());
    let with =
        |ranks: &str, program: &[&str]| run(&[&["-n", ranks, "-env", &preload], program].concat());
    let said = format!("loaded another MPI, {}", other.display());
    with("2", &["sleep", "0.3"]).expect(0).says(&said);
    with("2", &["sh", "-c", "sleep 0.3; exit 3"])
        .expect(3)
        .says(&said);
    assert_eq!(with("1", &["sleep", "0.3"]).expect(0).err, "");
    assert_eq!(run(&["-n", "2", "sleep", "0.3"]).expect(0).err, "");
    // Below a script that has not loaded it.
    let script = format!("{preload} sleep 0.3; true");
    shell(&["-n", "2"], &script).expect(0).says(&said);
}

/// Libraries that programs look for when they run are found before another MPI's.
#[test]
fn ranks_look_for_libraries_in_the_installation_first() {
    let dir = tempfile::tempdir().unwrap();
    let prefix = dir.path().canonicalize().unwrap();
    let path = |name: &str| prefix.join(name);
    std::fs::create_dir_all(path("bin")).unwrap();
    // Copied by another process; see `words_need_not_be_utf_8`.
    let copy = [
        "-p",
        env!("CARGO_BIN_EXE_mpiexec"),
        path("bin/mpiexec").to_str().unwrap(),
    ]
    .map(OsString::from);
    let copied = std::process::Command::new("cp").args(copy).status();
    assert!(copied.unwrap().success());
    let found = |before: &str| {
        let mut command = std::process::Command::new(path("bin/mpiexec"));
        command.args(["-n", "1", "sh", "-c", "echo $LD_LIBRARY_PATH"]);
        command.env("LD_LIBRARY_PATH", before);
        start(&mut command).finish().expect(0).out.trim().to_owned()
    };
    assert_eq!(found("/a"), "/a");
    std::fs::create_dir_all(path("lib/weft/compat")).unwrap();
    let compat = path("lib/weft/compat").display().to_string();
    assert_eq!(found("/a:/b"), format!("{compat}:/a:/b"));
}

/// A timeline that can't be written is refused before anything is started, one that isn't is an error.
#[test]
fn failed_timelines_are_errors() {
    let dir = tempfile::tempdir().unwrap();
    let prefix = dir.path().canonicalize().unwrap();
    for folder in ["bin", "lib"] {
        std::fs::create_dir_all(prefix.join(folder)).unwrap();
    }
    let copied = std::process::Command::new("cp")
        .args(["-p", env!("CARGO_BIN_EXE_mpiexec")])
        .arg(prefix.join("bin/mpiexec"))
        .status();
    assert!(copied.unwrap().success());
    // A library that does nothing, in the place of the one that records calls.
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let library = maps.lines().find(|line| line.contains("libgcc_s.so"));
    let library = library.and_then(|line| line.find('/').map(|at| &line[at..]));
    std::fs::copy(library.unwrap(), prefix.join("lib/libweft_profile.so")).unwrap();
    let traced = |args: &[&str], variable: Option<&str>| {
        let mut command = std::process::Command::new(prefix.join("bin/mpiexec"));
        command.args(args).current_dir(&prefix);
        command.envs(variable.map(|file| ("WEFT_TRACE", file)));
        start(&mut command).finish()
    };
    let impossible = "/nowhere/a.json (-trace, WEFT_TRACE): No such file";
    traced(&["-trace=/nowhere/a.json", "touch", "started"], None)
        .expect(2)
        .says(impossible);
    traced(&["-trace", "/nowhere/a.json", "touch", "started"], None)
        .expect(2)
        .says(impossible);
    traced(&["touch", "started"], Some("/nowhere/a.json"))
        .expect(2)
        .says(impossible);
    assert!(!prefix.join("started").exists());
    let not_written = format!(
        "no timeline was written to {}",
        prefix.join("weft-trace.json").display()
    );
    traced(&["-trace", "true"], None)
        .expect(1)
        .says(&not_written);
    traced(&["-trace", "sh", "-c", "exit 3"], None).expect(3);
    traced(&["-trace", "sh", "-c", "echo x > $WEFT_TRACE"], None)
        .expect(0)
        .says("the timeline is in ")
        .says("weft-trace.json");
    traced(&["-trace", "a.json", "sh", "-c", "echo x > a.json"], None).expect(0);
    traced(&["sh", "-c", "echo x > b"], Some("b")).expect(0);
}
