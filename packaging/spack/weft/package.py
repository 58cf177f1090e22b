"""Spack recipe: `spack repo add packaging/spack`, then `spack install weft`, or `spack develop weft` for a copy."""

import pathlib

from spack.package import *

try:
    from spack_repo.builtin.build_systems.generic import Package
except ImportError:
    pass  # Before Spack 1.0 it is one of the above.


class Weft(Package):
    """MPI library in Rust with the ABI of MPICH and the standard ABI of MPI-5.0."""

    # The checkout that this recipe is part of.
    git = pathlib.Path(__file__).resolve().parents[3].as_uri()
    license("MIT OR Apache-2.0")

    version("main", branch="main")

    variant("fortran", default=True, description="Fortran: mpif.h, mpi, mpi_f08")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("fortran", type="build", when="+fortran")
    depends_on("rust@1.89:", type="build")
    # Opened at run time if there.
    depends_on("libfabric", type="run")
    depends_on("hwloc", type="run")

    provides("mpi@:5.0")

    def install(self, spec, prefix):
        which("cargo")("xtask", "install", "--prefix", prefix)

    def setup_run_environment(self, env):
        for variable, name in (
            ("MPICC", "mpicc"),
            ("MPICXX", "mpicxx"),
            ("MPIF77", "mpif77"),
            ("MPIF90", "mpif90"),
        ):
            env.set(variable, join_path(self.prefix.bin, name))

    def setup_dependent_build_environment(self, env, dependent_spec):
        self.setup_run_environment(env)
        # What our wrappers call is the compiler that the package is to be built by.
        module = dependent_spec.package.module
        for variable, compiler in (
            ("WEFT_CC", "spack_cc"),
            ("WEFT_CXX", "spack_cxx"),
            ("WEFT_FC", "spack_fc"),
        ):
            if hasattr(module, compiler):
                env.set(variable, getattr(module, compiler))

    def setup_dependent_package(self, module, dependent_spec):
        spec = self.spec
        spec.mpicc = join_path(self.prefix.bin, "mpicc")
        spec.mpicxx = join_path(self.prefix.bin, "mpicxx")
        if "+fortran" in spec:
            spec.mpifc = join_path(self.prefix.bin, "mpif90")
            spec.mpif77 = join_path(self.prefix.bin, "mpif77")
