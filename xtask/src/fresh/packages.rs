//! Installs the wheel, the Debian packages and the source tree in a fresh system, and runs the
//! tutorial with each.

use std::fs;
use std::time::Instant;

use super::{System, cargo_home, enter};
use crate::{Result, dist, workspace};

/// Packages that the tutorial needs: a compiler and Python.
pub const BEFOREHAND: &str = "build-essential,ca-certificates,python3-venv";

/// Installations: name, commands, and the PATH of their programs.
const INSTALLATIONS: &[(&str, &str, &str)] = &[
    (
        "the wheel",
        "python3 -m venv /root/venv && /root/venv/bin/pip install --quiet --no-index /packages/*.whl",
        "/root/venv/bin:/usr/bin:/bin",
    ),
    (
        "the Debian packages",
        "apt-get install --quiet --yes --no-install-recommends /packages/weft_*.deb /packages/weft-dev_*.deb",
        "/usr/bin:/bin",
    ),
    (
        // Removes the other installations first.
        "the source tree",
        "apt-get remove --quiet --yes weft weft-dev && rm -r /root/venv && \
         cd \"$SOURCES\" && cargo xtask install --prefix /root/weft $FAST",
        "/root/weft/bin:/usr/bin:/bin",
    ),
];

/// Makes the packages and tries each installation.
pub fn run(system: &System, dev: bool) -> Result {
    let began = Instant::now();
    let packages = system.root.join("packages");
    dist::run(Some(&packages), dev, None)?;
    println!("xtask: packages made in {} s", began.elapsed().as_secs());
    let page = workspace::root().join("docs/tutorial.md");
    let text = fs::read_to_string(&page).map_err(|error| format!("{}: {error}", page.display()))?;
    let script = system.root.join("root/tutorial.sh");
    fs::write(&script, tutorial(&text)?)
        .map_err(|error| format!("{}: {error}", script.display()))?;
    for (name, first, path) in INSTALLATIONS {
        let began = Instant::now();
        let sources = workspace::root();
        let fast = if dev { "--dev" } else { "" };
        let install = format!(
            "export SOURCES='{}' FAST={fast}; {first}",
            sources.display()
        );
        enter(system, &install)?;
        let installed = began.elapsed().as_secs();
        enter(system, &format!("PATH={path} sh -e /root/tutorial.sh"))?;
        println!(
            "xtask: {}: {name} installed in {installed} s, the tutorial done after {} s",
            system.release.name,
            began.elapsed().as_secs()
        );
    }
    Ok(())
}

/// Turns the tutorial into a script that writes its files and runs its commands.
pub fn tutorial(text: &str) -> Result<String> {
    let mut script = "rm -rf ~/tutorial; mkdir ~/tutorial; cd ~/tutorial; set -x\n".to_owned();
    let mut parts = text.split("```");
    let mut commands = 0;
    parts.next();
    while let (Some(block), _) = (parts.next(), parts.next()) {
        let (head, body) = block.split_once('\n').unwrap_or_default();
        match head.split_once(' ') {
            Some(("c", name)) => {
                script += &format!("cat > {name} << 'END OF FILE'\n{body}END OF FILE\n");
            }
            None if head == "sh" => {
                // The script runs under `sh -e`, which ends at the first command that fails.
                commands += 1;
                script += body;
            }
            _ => {}
        }
    }
    // If the page's form changes, the script must not pass with too few commands.
    match commands {
        5.. => Ok(script),
        _ => Err(format!(
            "the tutorial has {commands} blocks of commands only"
        )),
    }
}

/// Returns the folders of this machine for the system: sources, target folder and cargo's home.
pub fn shared() -> Result<String> {
    let mut folders = vec![workspace::root(), workspace::target()?];
    folders.extend(cargo_home());
    let names: Vec<String> = folders
        .iter()
        .map(|one| one.display().to_string())
        .collect();
    if names.iter().any(|name| name.contains(char::is_whitespace)) {
        return Err(
            "the source tree, target folder or CARGO_HOME has a space in its path".to_owned(),
        );
    }
    Ok(names.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tutorial_is_a_script() {
        let page = workspace::root().join("docs/tutorial.md");
        let script = tutorial(&fs::read_to_string(page).unwrap()).unwrap();
        assert!(script.contains("mpicc -O2 -o heat heat.c\nmpiexec -n 4 ./heat"));
        assert!(script.contains("cat > threads.c << 'END OF FILE'\n#include <mpi.h>"));
        let checked = std::process::Command::new("sh")
            .args(["-n", "-c", &script])
            .status();
        assert!(checked.unwrap().success());
        assert!(tutorial("no commands").is_err());
    }
}
