//! Completion scripts for shells, from the lists of options.

use crate::children::KINDS;
use crate::help;
use crate::hosts::batch::SYSTEMS;

/// The supported shells.
const SHELLS: [&str; 3] = ["bash", "zsh", "fish"];

/// Options whose values are words, with these.
const VALUES: &[(&str, &[&str])] = &[
    (
        "bind-to",
        &[
            "none", "auto", "hwthread", "core", "l2cache", "l3cache", "numa", "socket", "board",
        ],
    ),
    (
        "map-by",
        &[
            "slot", "node", "seq", "hwthread", "core", "l2cache", "l3cache", "numa", "socket",
        ],
    ),
    ("membind", &["local", "none", "bind", "interleave"]),
    ("topolib", &["auto", "hwloc", "sys"]),
    ("bootstrap", KINDS),
    ("launcher", KINDS),
    ("rmk", SYSTEMS),
    (
        "initial-errhandler",
        &[
            "mpi_errors_are_fatal",
            "mpi_errors_abort",
            "mpi_errors_return",
        ],
    ),
    ("s", &["all", "none"]),
    ("stdin", &["all", "none"]),
    ("usize", &["infinite", "system"]),
    ("completion", &SHELLS),
];

/// Options whose value is a file or folder.
const FILES: [&str; 10] = [
    "app",
    "f",
    "hostfile",
    "machinefile",
    "configfile",
    "rankfile",
    "trace",
    "wdir",
    "prefix",
    "secret",
];

/// Returns the options with words as values, and these words.
fn values() -> impl Iterator<Item = (&'static str, String)> {
    let topics = ("help", help::topics().join(" "));
    let all = VALUES.iter().map(|(name, words)| (*name, words.join(" ")));
    all.chain([topics])
}

/// Formats all options with words as values.
fn by_value(format: impl Fn(&str, &str) -> String) -> String {
    values().map(|(name, words)| format(name, &words)).collect()
}

/// Returns the completion script for mpiexec and mpirun.
pub fn script(shell: &str, options: &[&str]) -> Result<String, String> {
    let all: Vec<String> = options.iter().map(|name| format!("-{name}")).collect();
    let all = all.join(" ");
    let files: Vec<String> = FILES.iter().map(|name| format!("-{name}")).collect();
    Ok(match shell {
        "bash" => format!(
            "# Completion of mpiexec's options for bash.\n\
             _weft_mpiexec() {{\n    \
                 local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}}\n    \
                 case ${{before/#--/-}} in\n        \
                     {}) COMPREPLY=($(compgen -f -- \"$word\")); return ;;\n\
                 {}    \
                 esac\n    \
                 case $word in\n        \
                     --*) COMPREPLY=($(compgen -P - -W '{all}' -- \"${{word#-}}\")) ;;\n        \
                     -*) COMPREPLY=($(compgen -W '{all}' -- \"$word\")) ;;\n        \
                     *) COMPREPLY=($(compgen -c -f -- \"$word\")) ;;\n    \
                 esac\n\
             }}\n\
             complete -o filenames -F _weft_mpiexec mpiexec mpirun\n",
            files.join("|"),
            by_value(|name, values| format!(
                "        -{name}) COMPREPLY=($(compgen -W '{values}' -- \"$word\")); return ;;\n"
            ))
        ),
        "zsh" => format!(
            "#compdef mpiexec mpirun\n\
             # Completion of mpiexec's options for zsh.\n\
             local -a options\n\
             options=({all})\n\
             case ${{words[CURRENT-1]/#--/-}} in\n\
             {}\
             esac\n\
             case $words[CURRENT] in\n    \
                 --*) compadd -- -${{^options}} ;;\n    \
                 -*) compadd -- $options ;;\n    \
                 *) _alternative 'commands:program:_command_names -e' 'files:file:_files' ;;\n\
             esac\n",
            by_value(|name, values| format!("    -{name}) compadd -- {values}; return ;;\n"))
        ),
        "fish" => {
            let mut text = "# Completion of mpiexec's options for fish.\n".to_owned();
            for name in options {
                let value = match values().find(|(option, _)| option == name) {
                    Some((_, words)) => format!(" -x -a '{words}'"),
                    None if FILES.contains(name) => " -r -F".to_owned(),
                    None => String::new(),
                };
                // `-o` is fish's old style: a single dash before names of any length.
                text += &format!("complete -c mpiexec -c mpirun -o {name} -l {name}{value}\n");
            }
            text
        }
        _ => {
            return Err(format!(
                "option -completion takes the name of a shell ({}), not '{shell}'",
                SHELLS.join(", ")
            ));
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_shell_gets_each_option() {
        for shell in SHELLS {
            let options = crate::options::names();
            let text = script(shell, &options).unwrap();
            for name in options {
                let word = if shell == "fish" {
                    format!("-o {name}")
                } else {
                    format!("-{name}")
                };
                let found = text
                    .split(['(', ')', '\'', ' ', '\n'])
                    .collect::<Vec<_>>()
                    .join(" ");
                assert!(
                    format!(" {found} ").contains(&format!(" {word} ")),
                    "{shell}: {name}"
                );
            }
        }
        assert!(script("csh", &[]).is_err());
    }

    /// The values are those that the options take.
    #[test]
    fn values_are_completed() {
        for (name, values) in values() {
            for value in values.split(' ') {
                let args = [format!("-{name}"), value.to_owned(), "a".to_owned()];
                let args = args.map(std::ffi::OsString::from);
                if let Err(error) = crate::options::parse(&args, |_| None) {
                    panic!("-{name} {value}: {error}");
                }
            }
        }
        let script = script("bash", &crate::options::names()).unwrap();
        for (words, completed) in [
            ("-bind-to l", "l2cache l3cache\n"),
            ("--bind-to l", "l2cache l3cache\n"),
            ("-l --bind-to-c", "--bind-to-core\n"),
            ("-help b", "binding\n"),
        ] {
            let test = format!(
                "COMP_WORDS=(mpiexec {words}) COMP_CWORD=2; _weft_mpiexec; echo ${{COMPREPLY[@]}}"
            );
            let run = std::process::Command::new("bash")
                .arg("-c")
                .arg(script.clone() + &test)
                .output();
            let Ok(run) = run else {
                return; // without bash
            };
            assert_eq!(String::from_utf8_lossy(&run.stdout), completed, "{words}");
        }
    }
}
