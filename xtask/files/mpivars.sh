# Puts Weft in front for this shell: `. mpivars.sh`. Programs built by mpicc don't need it; programs
# built with another library of this ABI then find Weft's libmpi.so.12.
# Bash and zsh tell where this file lies; in other shells it is where it was installed.

if [ -n "${BASH_VERSION-}" ]; then
    weft_file=${BASH_SOURCE[0]}
elif [ -n "${ZSH_VERSION-}" ]; then
    eval 'weft_file=${(%):-%x}'
else
    weft_file='@PREFIX@/bin/mpivars.sh'
fi
[ -h "$weft_file" ] && weft_file=$(readlink -f "$weft_file")
WEFT_ROOT=$(cd "$(dirname "$weft_file")/.." && pwd)
unset weft_file

export WEFT_ROOT
export PATH="$WEFT_ROOT/bin${PATH:+:$PATH}"
export LD_LIBRARY_PATH="$WEFT_ROOT/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
export LIBRARY_PATH="$WEFT_ROOT/lib${LIBRARY_PATH:+:$LIBRARY_PATH}"
export CPATH="$WEFT_ROOT/include${CPATH:+:$CPATH}"
export PKG_CONFIG_PATH="$WEFT_ROOT/lib/pkgconfig${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH}"
