//! Completion scripts for shells, from the lists of options.

/// The supported shells.
const SHELLS: [&str; 3] = ["bash", "zsh", "fish"];

/// Options whose value is a file or folder.
const FILES: [&str; 8] = [
    "f",
    "hostfile",
    "machinefile",
    "configfile",
    "rankfile",
    "trace",
    "wdir",
    "prefix",
];

/// Returns the completion script for mpiexec and mpirun.
pub fn script(shell: &str, options: &[&str]) -> Result<String, String> {
    let all: Vec<String> = options.iter().map(|name| format!("-{name}")).collect();
    let files: Vec<String> = FILES.iter().map(|name| format!("-{name}")).collect();
    Ok(match shell {
        "bash" => format!(
            "# Completion of mpiexec's options for bash.\n\
             _weft_mpiexec() {{\n    \
                 local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}}\n    \
                 case $before in\n        \
                     {}) COMPREPLY=($(compgen -f -- \"$word\")); return ;;\n    \
                 esac\n    \
                 case $word in\n        \
                     -*) COMPREPLY=($(compgen -W '{}' -- \"$word\")) ;;\n        \
                     *) COMPREPLY=($(compgen -c -f -- \"$word\")) ;;\n    \
                 esac\n\
             }}\n\
             complete -o filenames -F _weft_mpiexec mpiexec mpirun\n",
            files.join("|"),
            all.join(" ")
        ),
        "zsh" => format!(
            "#compdef mpiexec mpirun\n\
             # Completion of mpiexec's options for zsh.\n\
             local -a options\n\
             options=({})\n\
             case $words[CURRENT] in\n    \
                 -*) compadd -- $options ;;\n    \
                 *) _alternative 'commands:program:_command_names -e' 'files:file:_files' ;;\n\
             esac\n",
            all.join(" ")
        ),
        "fish" => {
            let mut text = "# Completion of mpiexec's options for fish.\n".to_owned();
            for name in options {
                let file = if FILES.contains(name) { " -r -F" } else { "" };
                // `-o` is fish's old style: a single dash before names of any length.
                text += &format!("complete -c mpiexec -c mpirun -o {name}{file}\n");
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
}
