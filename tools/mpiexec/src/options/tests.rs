//! The command line, read.

use super::*;

fn read(line: &str) -> Result<Request, String> {
    let args: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
    parse(&args, |_| None)
}

fn job(line: &str) -> Options {
    match read(line) {
        Ok(Request::Run(options)) => *options,
        other => panic!("{line}: {other:?}"),
    }
}

#[test]
fn sections_have_their_own_and_shared_settings() {
    let job = job("-genv A 1 -n 2 -env B 2 -wdir /tmp a -l x : --np 3 -genv C 3 -envnone b");
    assert_eq!(job.label, None);
    let [a, b] = &job.sections[..] else {
        panic!("{job:?}")
    };
    assert_eq!((a.count, b.count), (2, 3));
    assert_eq!(a.command, ["a", "-l", "x"]);
    assert_eq!(b.command, ["b"]);
    assert_eq!(a.wdir.as_deref(), Some("/tmp".as_ref()));
    let names = |s: &Section| s.set.iter().map(|v| v.0.clone()).collect::<Vec<_>>();
    assert_eq!(names(a), ["A", "C", "B"]);
    assert_eq!(names(b), ["A", "C"]);
    assert_eq!((&a.inherit, &b.inherit), (&Inherit::All, &Inherit::None));
}

#[test]
fn options_of_hydra_are_understood() {
    let job = job(
        "-hosts localhost:2,127.0.0.1,[::1]:4 -ppn 2 -iface lo -prepend-rank \
         -outfile-pattern o.%r -disable-auto-cleanup -n 2 a",
    );
    assert!(job.label.as_deref() == Some("[%r] ".as_ref()) && !job.cleanup);
    assert_eq!(job.files, [Some("o.%r".into()), None]);
    let name = label::of("o.%r%%.%g.%h.%p".as_ref(), 3, "a", 2);
    assert_eq!(name, b"o.3%.0.a.2");
}

#[test]
fn a_file_holds_sections() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("config");
    std::fs::write(
        &file,
        "# a job\n-n 2 ./a 'b c' \"\"\n\n  -n 1 -env X 1 ./d\n",
    )
    .unwrap();
    let job = job(&format!("-configfile {}", file.display()));
    let commands: Vec<_> = job.sections.iter().map(|s| (s.count, &s.command)).collect();
    let expected = [OsString::from("./a"), "b c".into(), "".into()].to_vec();
    assert_eq!(commands, [(2, &expected), (1, &vec!["./d".into()])]);
    std::fs::write(&file, "-n 2 'a\n").unwrap();
    let error = read(&format!("-configfile {}", file.display())).unwrap_err();
    assert!(error.contains("line 1"), "{error}");
    let hosts = dir.path().join("hosts");
    std::fs::write(&hosts, "localhost slots=4 # here\n\nfar.example:x\n").unwrap();
    let error = read(&format!("-f {} a", hosts.display())).unwrap_err();
    assert!(error.contains("line 3: 'x'"), "{error}");
}

/// What a spawned job's launcher is told; see `spawned`.
#[test]
fn colons_are_arguments_of_spawned_programs() {
    let fds = [
        "-spawned-by",
        "0",
        "-1",
        "-env",
        "A",
        "::",
        "a",
        "::",
        ":::",
        ":",
        "b",
        "::",
    ];
    let args = fds.map(OsString::from);
    let Ok(Request::Run(job)) = parse(&args, |_| None) else {
        panic!()
    };
    assert_eq!(job.sections[0].command, ["a", ":", "::"]);
    assert_eq!(
        job.sections[0].set,
        [(OsString::from("A"), OsString::from(":"))]
    );
    assert_eq!(job.sections[1].command, ["b", ":"]);
    // `::` separates sections in spawned jobs only.
    assert_eq!(
        read("a ::").map(|request| format!("{request:?}").contains("\"::\"")),
        Ok(true)
    );
}

#[test]
fn values_may_be_attached() {
    let attached =
        job("-np=3 --ppn=2 -genv=A=1 -env=B=2=3 -bind-to=core:2 -s=all -prepend-rank ./a -n=1");
    let apart =
        job("-np 3 -ppn 2 -genv A=1 -env B=2=3 -bind-to core:2 -s all -prepend-rank ./a -n=1");
    assert_eq!(format!("{attached:?}"), format!("{apart:?}"));
    for (line, part) in [
        ("-prepend-rank=1 a", "-prepend-rank takes no value"),
        ("-nn=2 a", "unknown option -nn; did you mean -n?"),
        ("-n= a", "option -n is ''"),
        ("-configfile=/nowhere/x", "'/nowhere/x' can't be read"),
        (
            "-app /nowhere/x",
            "-app: the file '/nowhere/x' can't be read",
        ),
        ("-help=moon", "option -help takes nothing or one of"),
    ] {
        let error = match read(line) {
            Ok(Request::Help(topic)) => crate::help::text(topic.as_deref()).unwrap_err(),
            other => other.expect_err(line),
        };
        assert!(error.contains(part), "{line}: {error}");
    }
}

/// What becomes of an option of another launcher.
enum Fate {
    /// It works, or nothing is lost.
    Works,
    /// The job runs, and a warning contains this.
    Noted(&'static str),
    /// The job is refused, and the error contains this.
    Refused(&'static str),
}

/// The options that the documentation of Hydra and Open MPI shows in its examples.
#[test]
fn examples_of_other_launchers_work_or_say_what_to_write() {
    use Fate::{Noted, Refused, Works};
    let hydra = [
        ("-n 4 ./a", Works),
        ("-np 4 ./a : -np 2 ./b", Works),
        ("-hosts h1:2,h2 -n 4 ./a", Works),
        ("-host h1 -n 2 ./a", Works),
        ("-ppn 2 ./a", Works),
        ("-launcher ssh -n 2 ./a", Works),
        ("-launcher-exec /usr/bin/ssh -n 2 ./a", Works),
        ("-bootstrap slurm -n 2 ./a", Works),
        ("-rmk pbs ./a", Works),
        ("-iface ib0 -n 2 ./a", Works),
        ("-bind-to core -n 2 ./a", Works),
        ("-bind-to rr -n 2 ./a", Works),
        ("-bind-to socket -n 2 ./a", Works),
        ("-bind-to user:0,3,2,1 -n 4 ./a", Works),
        ("-bind-to core:2 -map-by l2cache -n 2 ./a", Works),
        ("-map-by socket:2 -n 4 ./a", Refused("ppr:N:socket")),
        ("-membind bind -n 2 ./a", Works),
        ("-topolib hwloc -n 2 ./a", Works),
        ("-genv OMP_NUM_THREADS 2 -n 2 ./a", Works),
        ("-genvlist A,B -envnone -n 2 ./a", Works),
        ("-env=A=1 -n=2 ./a", Works),
        ("-wdir /tmp -n 2 ./a", Works),
        ("-prepend-rank -n 2 ./a", Works),
        ("-prepend-pattern=%r: -n 2 ./a", Works),
        (
            "-outfile-pattern=out.%r -errfile-pattern=err.%r -n 2 ./a",
            Works,
        ),
        ("-disable-auto-cleanup -n 2 ./a", Works),
        ("-print-all-exitcodes -verbose -n 2 ./a", Works),
        ("-usize infinite -n 2 ./a", Works),
        ("-nameserver h1 -n 2 ./a", Works),
        ("-skip-launch-node -n 2 ./a", Works),
        (
            "-disable-hostname-propagation -localhost h1 -n 2 ./a",
            Works,
        ),
        ("-demux select -n 2 ./a", Works),
        (
            "-order-nodes 1 -n 2 ./a",
            Noted("in the order in which they are named"),
        ),
        ("-enable-x -n 2 ./a", Noted("-bootstrap-exec-args -X")),
        ("-profile -n 2 ./a", Noted("-info")),
        (
            "-ckpointlib blcr -ckpoint-prefix /tmp -n 2 ./a",
            Noted("no checkpoints"),
        ),
        ("-pmi-port -n 2 ./a", Noted("PMI_FD")),
        ("-gpus-per-proc=1 -n 2 ./a", Refused("CUDA_VISIBLE_DEVICES")),
        (
            "-rankmap (vector,(0,2,1)) -n 4 ./a",
            Refused("-rankfile FILE"),
        ),
        ("-hybrid-hosts h1,h2 -n 4 ./a", Refused("-hosts H:N")),
    ];
    let open_mpi = [
        ("-np 4 ./a", Works),
        ("-c 4 ./a : -np 2 ./b", Works),
        ("--host aa,aa,bb -n 3 ./a", Works),
        ("-H aa:3,bb ./a", Works),
        ("-N 2 ./a", Works),
        ("--npernode 2 ./a", Works),
        ("--pernode ./a", Works),
        ("--npersocket 2 ./a", Works),
        ("--map-by ppr:2:node ./a", Works),
        ("--map-by ppr:2:package -n 4 ./a", Works),
        ("--map-by node -n 4 ./a", Works),
        ("--map-by slot:PE=2 -n 2 ./a", Works),
        ("--map-by core --bind-to core -n 2 ./a", Works),
        ("--map-by l3cache --bind-to package -n 2 ./a", Works),
        ("--map-by seq -H aa,bb ./a", Works),
        ("--map-by :OVERSUBSCRIBE -n 4 ./a", Works),
        ("--bind-to socket --report-bindings -n 2 ./a", Works),
        (
            "--bind-to hwthread --use-hwthread-cpus -n 2 ./a",
            Noted("-map-by"),
        ),
        ("--bind-to core:overload-allowed -n 2 ./a", Works),
        ("--oversubscribe -n 4 ./a", Works),
        ("--nooversubscribe --nolocal -n 2 ./a", Works),
        ("--cpus-per-proc 2 -n 2 ./a", Works),
        ("-x PATH -x OFILE=/tmp/out -n 2 ./a", Works),
        ("--wdir /tmp --path /opt/bin -n 2 ./a", Works),
        ("--prefix /opt/mpi -n 2 ./a", Works),
        ("--tag-output --timestamp-output -n 2 ./a", Works),
        ("--output-filename out -n 2 ./a", Works),
        ("--output tag,timestamp -n 2 ./a", Works),
        ("--output file=out -n 2 ./a", Works),
        ("--display map,bind -n 2 ./a", Works),
        ("--display-map --display-allocation -n 2 ./a", Works),
        (
            "--timeout 60 --report-state-on-timeout --get-stack-traces -n 2 ./a",
            Works,
        ),
        ("--stdin all -n 2 ./a", Works),
        ("--allow-run-as-root -n 2 ./a", Works),
        ("--do-not-launch -n 2 ./a", Works),
        ("--mca btl self,tcp -n 2 ./a", Noted("docs/from-openmpi.md")),
        (
            "--am file --tune file -n 2 ./a",
            Noted("docs/from-openmpi.md"),
        ),
        ("--with-ft ulfm -n 2 ./a", Works),
        ("--rank-by slot -n 2 ./a", Noted("-map-by")),
        ("--cpu-list 0,1 -n 2 ./a", Noted("-bind-to")),
        ("--merge-stderr-to-stdout -n 2 ./a", Noted("2>&1")),
        ("--xterm 0,1 -n 2 ./a", Noted("mpiexec -n 1 TOOL")),
        ("--report-uri - -n 2 ./a", Noted("no daemons")),
        (
            "--map-by pe-list=0,1 -n 2 ./a",
            Refused("-bind-to user:LIST"),
        ),
        (
            "--map-by rankfile:file=ranks -n 2 ./a",
            Refused("-rankfile FILE"),
        ),
    ];
    // The tables of what does not work come behind this.
    let table = |page: &'static str| page.split_once("in examples").map_or("", |(_, rest)| rest);
    let pages = [
        table(include_str!("../../../../docs/from-mpich.md")),
        table(include_str!("../../../../docs/from-openmpi.md")),
    ];
    let hydra = hydra.map(|(line, fate)| (line, fate, pages[0]));
    let open_mpi = open_mpi.map(|(line, fate)| (line, fate, pages[1]));
    for (line, fate, page) in hydra.into_iter().chain(open_mpi) {
        let mut words = line.split([' ', '=']).filter(|word| word.starts_with("-"));
        let is_listed = words.any(|word| page.contains(&format!("`{word}")));
        assert!(
            is_listed || matches!(fate, Works),
            "{line}: not in the table"
        );
        match (read(line), fate) {
            (Ok(Request::Run(job)), Works) => assert_eq!(job.notes, [""; 0], "{line}"),
            (Ok(Request::Run(job)), Noted(part)) => {
                assert!(
                    job.notes.join("\n").contains(part),
                    "{line}: {:?}",
                    job.notes
                );
            }
            (Err(error), Refused(part)) => assert!(error.contains(part), "{line}: {error}"),
            (other, _) => panic!("{line}: {other:?}"),
        }
    }
}

#[test]
fn options_end_at_two_dashes() {
    assert_eq!(job("-l -- -n").sections[0].command, ["-n"]);
}

#[test]
fn ranks_are_bound_to_one_core_or_several() {
    assert_eq!(job("-bind-to core a").bind.show(), "core:1");
    assert_eq!(job("-bind-to core:2 a").bind.show(), "core:2");
    assert_eq!(job("a").bind, Bind::AUTO);
    let job = job("-bind-to numa -map-by ppr:2:socket -report-bindings a");
    assert_eq!(job.bind.show(), "numa:1 ppr:2:socket");
    assert!(job.many.report_bindings);
}

#[test]
fn mistakes_are_named() {
    for (line, part) in [
        ("", "no program"),
        ("-n 2", "no program"),
        ("a :", "section 2"),
        ("-n", "-n needs"),
        ("-n 0 a", "-n is 0"),
        ("-np -1 a", "is '-1'; it must be"),
        ("-n 99999999999999999999 a", "must be a whole number"),
        ("-n 70000 a", "70000 ranks"),
        ("-nn 2 a", "did you mean -n?"),
        ("-time 3 a", "unknown option -time"),
        ("-timout 3 a", "did you mean -timeout?"),
        ("--bind-too core a", "did you mean -bind-to?"),
        ("-hostfile /nowhere/x a", "can't be read"),
        ("-hosts localhost,b:0 a", "0 ranks"),
        ("-host -oX a", "can't be the name"),
        ("-map-by moon a", "not 'moon'"),
        ("-bootstrap moon a", "not 'moon'"),
        ("-stdin x a", "not 'x'"),
        ("-n 1 -configfile x a", "is not the first option"),
        ("-outfile-pattern out.%x a", "'out.%x'"),
        ("-ppn", "-ppn needs"),
        ("-timeout x a", "is 'x'; it must be a number of seconds"),
        ("-timeout -3 a", "is '-3'; it must be"),
        ("-timeout nan a", "is 'nan'; it must be"),
        ("-bind-to moon a", "not 'moon'"),
        ("-env =1 b c", "'=1' is not the name"),
        ("-bind-to core:0 a", "not 'core:0'"),
        ("-initial-errhandler mpi_errors a", "not 'mpi_errors'"),
        ("-memory-alloc-kinds system,,mpi a", "not 'system,,mpi'"),
        ("-memory-alloc-kinds", "needs kinds of memory"),
    ] {
        let error = read(line).expect_err(line);
        assert!(error.contains(part), "{line}: {error}");
    }
}

#[test]
fn time_limits() {
    assert_eq!(job("-timeout 0 a").timeout, None);
    assert_eq!(
        job("-timeout 1.5 a").timeout,
        Some(Duration::from_millis(1500))
    );
    assert!(job("-timeout inf a").timeout.is_some());
    let args = [OsString::from("a")];
    let with = |value: &'static str| {
        move |name: &str| (name == "MPIEXEC_TIMEOUT").then(|| OsString::from(value))
    };
    let Ok(Request::Run(job)) = parse(&args, with("2")) else {
        panic!("not run")
    };
    assert_eq!(job.timeout, Some(Duration::from_secs(2)));
    assert!(parse(&args, with("x")).is_err());
}

#[test]
fn information_includes_bindings() {
    let args = [OsString::from("a")];
    for (value, shown) in [("1", true), ("all", true), ("off", false), ("", false)] {
        let with = |name: &str| (name == "WEFT_INFO").then(|| OsString::from(value));
        let Ok(Request::Run(job)) = parse(&args, with) else {
            panic!("not run")
        };
        assert_eq!(job.many.report_bindings, shown, "{value}");
    }
}

/// What the manual's headings of options name.
fn manual() -> Vec<String> {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/mpiexec.1");
    let manual = std::fs::read_to_string(file).unwrap().replace("\\-", "-");
    let options = manual.split(".SH OPTIONS FOR A SECTION").nth(1).unwrap();
    let options = options.split(".SH ENVIRONMENT").next().unwrap();
    let mut names = Vec::new();
    let mut heading = false;
    for line in options.lines() {
        // Paragraphs begin with their options; the others' stand in lists of their own.
        if heading || line.starts_with(".BR -") || line.starts_with(".B -") {
            let words = line.split(|c: char| c.is_whitespace() || "\",".contains(c));
            names.extend(
                words
                    .filter_map(|word| word.strip_prefix('-'))
                    .map(str::to_owned),
            );
        }
        heading = line == ".TP";
    }
    names
}

#[test]
fn the_manual_has_all_options_and_no_others() {
    let manual = manual();
    let refused = foreign::REFUSED.iter().map(|(name, _)| *name);
    let foreign = foreign::all().iter().map(foreign::Foreign::name);
    let foreign = foreign.chain(refused);
    let known: Vec<&str> = KNOWN
        .iter()
        .chain(many::NAMES)
        .chain(many::JoinDraft::NAMES)
        .copied()
        .chain(foreign)
        .collect();
    for name in &known {
        assert!(
            manual.iter().any(|one| one == name),
            "-{name} is not in the manual"
        );
    }
    for name in &manual {
        assert!(
            known.contains(&name.as_str()),
            "the manual has -{name}, which nobody knows"
        );
    }
    for (index, name) in manual.iter().enumerate() {
        assert!(
            !manual[..index].contains(name),
            "the manual has -{name} twice"
        );
    }
}

#[test]
fn listed_options_are_understood_and_nothing_else_is() {
    let names = KNOWN.iter().chain(many::NAMES);
    for name in names.chain(many::JoinDraft::NAMES) {
        // Without values some are wrong, but none is unknown.
        if let Err(error) = read(&format!("-{name}")) {
            assert!(!error.contains("unknown option"), "{error}");
        }
        assert!(
            foreign::find(name).is_none(),
            "-{name} is said to be another launcher's"
        );
    }
    // Every word that the sources compare an option with is in a list.
    let hidden = [SPAWNED, PREPUT, PROBE];
    for source in [include_str!("../options.rs"), include_str!("many.rs")] {
        let body = source.split("match name {").nth(1).unwrap();
        for line in body.lines().take_while(|line| !line.starts_with('}')) {
            let Some(arm) = line.strip_prefix("        \"") else {
                continue;
            };
            let arm = format!("\"{}", arm.split("=>").next().unwrap());
            for name in arm.split('"').skip(1).step_by(2) {
                let listed = KNOWN.contains(&name) || many::NAMES.contains(&name);
                assert!(listed || hidden.contains(&name), "-{name} is in no list");
            }
        }
    }
}

#[test]
fn all_options_of_intel_and_open_mpi_are_known() {
    // What their own help and manuals list, with how many words follow.
    for (names, values) in [
        (
            "aps mps silent-abort nolocal print-rank-map prepend-timestamp prot \
             quiet display-map display-allocation output-proctable novm oversubscribe \
             nooversubscribe bycore byslot bynode pernode bind-to-core bind-to-socket report-bindings \
             merge-stderr-to-stdout tag-output timestamp-output xml noprefix preload-binary \
             set-cwd-to-session-dir debug get-stack-traces tv allow-run-as-root continuous \
             disable-recovery enable-recovery do-not-launch do-not-resolve index-argv-by-rank \
             leave-session-attached report-child-jobs-separately show-progress terminate \
             use-hwthread-cpus use-regexp debug-devel debug-daemons display-devel-map \
             display-diffable-map display-topo report-state-on-timeout",
            0,
        ),
        (
            "gdb-args gtool gtoolfile tune cpu-bind cpu-set cpu-list rank-by xterm preload-files am \
             debugger cartofile max-restarts ompi-server personality report-events report-pid report-uri \
             launch-agent runtime-options max-vm-size xml-file hosts-group H prefix wd x timeout stdin",
            1,
        ),
        ("mca gmca pmixmca prtemca", 2),
    ] {
        for name in names.split_whitespace() {
            let line = format!("-{name} {} a", ["1"].repeat(values).join(" "));
            assert_eq!(job(&line).sections[0].command, ["a"], "{line}");
        }
    }
    let job = job("-display map,bind -output tag,timestamp,dir=o -s 0,2-4 --ppr 2:socket a");
    assert!(job.many.print_map && job.many.report_bindings);
    assert_eq!(job.label.as_deref(), Some("%t [%r] ".as_ref()));
    assert_eq!(job.files[0].as_deref(), Some("o/rank.%r/stdout".as_ref()));
    assert_eq!(job.many.input, many::Input::Ranks(vec![0, 2, 3, 4]));
    assert_eq!(job.bind.show(), "auto ppr:2:socket");
}

#[test]
fn all_options_of_hydra_are_known() {
    // Names with how many words follow each.
    for (names, values) in [
        (
            "genvnone genvall envnone envall enable-x disable-x verbose v print-all-exitcodes profile \
             prepend-rank l disable-auto-cleanup enable-auto-cleanup dac eac \
             disable-hostname-propagation enable-hostname-propagation pmi-port skip-launch-node \
             debug rr prefork",
            0,
        ),
        (
            "genvlist envlist f hosts host machinefile hostlist wdir wd path n np launcher launcher-exec \
             bootstrap bootstrap-exec rmk topolib bind-to map-by membind demux iface ppn perhost grr \
             prepend-pattern outfile-pattern errfile-pattern nameserver order-nodes localhost usize \
             gpu-subdevs-per-proc umask binding bindlib ckpointlib ckpoint-prefix \
             ckpoint-num ckpoint-interval s timeout arch soft",
            1,
        ),
        ("genv env", 2),
    ] {
        for name in names.split_whitespace() {
            let value = match name {
                "launcher" | "bootstrap" => "ssh",
                "rmk" => "user",
                "bind-to" => "core",
                "map-by" => "socket",
                "topolib" => "hwloc",
                "membind" => "firsttouch",
                "f" | "machinefile" => concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"),
                _ => "1",
            };
            let line = format!("-{name} {} a", [value].repeat(values).join(" "));
            if name == "f" || name == "machinefile" {
                // Its content is wrong, which shows that it is read.
                assert!(read(&line).unwrap_err().contains("line 1"), "{line}");
            } else {
                assert_eq!(job(&line).sections[0].command, ["a"], "{line}");
            }
        }
    }
}

/// The options that a text names: words that begin with a dash or two and are no numbers.
fn options_in(text: &str) -> Vec<String> {
    let words = text.split(|c: char| c.is_whitespace() || "`,;()|".contains(c));
    let words = words.filter_map(|word| word.strip_prefix('-'));
    let words = words.map(|word| word.strip_prefix('-').unwrap_or(word));
    let words = words.map(|word| word.split('=').next().unwrap_or_default());
    let words = words.map(|word| word.trim_end_matches(['.', ':']));
    let is_name = |word: &&str| word.starts_with(|c: char| c.is_ascii_alphabetic());
    words.filter(is_name).map(str::to_owned).collect()
}

#[test]
fn pages_and_the_short_help_name_no_option_that_nobody_knows() {
    let is_known = |name: &str| names().contains(&name) || foreign::find(name).is_some();
    for name in options_in(&crate::help::text(None).unwrap()) {
        // Of another program's command line, and the placeholder of the closing lines.
        let others = ["mpi", "option"];
        assert!(
            is_known(&name) || others.contains(&&name[..]),
            "-h names -{name}"
        );
    }
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let pages = std::fs::read_dir(format!("{root}/docs")).unwrap();
    let pages = pages.map(|entry| entry.unwrap().path());
    let pages = pages.filter(|path| path.extension().is_some_and(|ending| ending == "md"));
    // Its command lines are mistakes, for the sake of their messages.
    let pages = pages.filter(|path| !path.ends_with("transcripts.md"));
    let mut count = 0;
    for page in pages.chain([format!("{root}/README.md").into()]) {
        let text = std::fs::read_to_string(&page).unwrap();
        for line in text.lines() {
            for line in line.split('`') {
                let Some((before, line)) = ["mpiexec ", "mpirun "]
                    .iter()
                    .find_map(|name| line.split_once(name))
                else {
                    continue;
                };
                let word = before.rsplit(char::is_whitespace).next();
                if word.is_some_and(|word| word.contains('=')) {
                    continue; // the value of another program's option
                }
                count += 1;
                if let Err(error) = read(line) {
                    assert!(
                        !error.contains("unknown option"),
                        "{}: {error}",
                        page.display()
                    );
                }
            }
        }
    }
    assert!(count > 60, "only {count} lines were found");
}
