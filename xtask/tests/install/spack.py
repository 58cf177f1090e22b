"""Runs the phases of the recipe for Spack, without Spack: spack.py RECIPE PREFIX OLD.

The modules of Spack have here what the recipe takes from them; with OLD = 1 as before Spack 1.0. Prints the
variables that a program's build and a user's shell get.
"""

import os
import runpy
import subprocess
import sys
import types

recipe, prefix, old = sys.argv[1:]


class Prefix(str):
    @property
    def bin(self):
        return os.path.join(self, "bin")


class Package:
    def __init__(self, prefix):
        self.prefix = Prefix(prefix)
        self.spec = Spec(self)


class Spec:
    """The package with all its variants."""

    def __init__(self, package):
        self.package = package

    def __contains__(self, variant):
        return variant == "+fortran"


class Variables(dict):
    set = dict.__setitem__


def which(name):
    return lambda *words: subprocess.run([name, *words], check=True)


declared = []
core = types.ModuleType("spack.package")
core.which, core.join_path = which, os.path.join
for name in ("depends_on", "license", "provides", "variant", "version"):
    setattr(core, name, lambda *words, name=name, **more: declared.append((name, words[0])))
modules = {"spack": types.ModuleType("spack"), "spack.package": core}
if old == "1":
    core.Package = Package
else:
    place = ""
    for part in ("spack_repo", "builtin", "build_systems", "generic"):
        place = f"{place}.{part}".lstrip(".")
        modules[place] = types.ModuleType(place)
    modules[place].Package = Package
sys.modules.update(modules)

package = runpy.run_path(recipe)["Weft"](prefix)
package.install(package.spec, package.prefix)

program = types.SimpleNamespace(package=Package("/program"))
program.package.module = types.SimpleNamespace(spack_cc="/cc", spack_cxx="/c++", spack_fc="/fc")
package.setup_dependent_package(types.SimpleNamespace(), program)
shell, build = Variables(), Variables()
package.setup_run_environment(shell)
package.setup_dependent_build_environment(build, program)
assert shell.items() <= build.items()
for name, value in declared + sorted(build.items()):
    print(f"{name}={value}")
for name in ("mpicc", "mpicxx", "mpifc", "mpif77"):
    print(f"spec.{name}={getattr(package.spec, name)}")
