# shellcheck shell=bash
# CUDA toolkits for `./dev build --cuda` and `./dev check cuda`: an installed one, or else wheels of PyPI, which
# tools/cuda/ pins. For CUDA 12, nvcc is from Debian 13. ./dev sources this file and defines say, fail, jobs and build.
# The build of the tests runs it (tests/cuda/kernels).

nvcc_12='nvidia-cuda-toolkit=12.4.131~12.4.1-2'
install_cuda='install CUDA 12.4 or later and cuDNN 9, and set CUDA_HOME'

# Prints the version of a toolkit, such as 13.0.
nvcc_version() { "$1/bin/nvcc" --version | sed -n 's/.*release \([0-9.]*\),.*/\1/p'; }

# present_toolkit [MAJOR]: prints the folder of the first toolkit of CUDA 12.4 or later with cuDNN, of this major version
# if one is named. The downloaded CUDA 12 is for those who ask for 12.
present_toolkit() {
  local folder nvcc version downloaded=build/cuda-toolkit
  [ "${1:-}" != 12 ] || downloaded=build/cuda-toolkit-12
  nvcc=$(command -v nvcc || true)
  for folder in ${nvcc:+"$(dirname "$(dirname "$(readlink -f "$nvcc")")")"} ${CUDA_HOME:+"$CUDA_HOME"} \
    /usr/local/cuda "$downloaded"; do
    { [ -x "$folder/bin/nvcc" ] && [ -e "$folder/include/cudnn.h" ]; } || continue
    version=$(nvcc_version "$folder")
    if [[ "$version" == "${1:-}"* ]] && printf '12.4\n%s\n' "$version" | sort -CV; then
      (cd "$folder" && pwd)
      return
    fi
  done
  return 1
}

has_pip() { python3 -m pip --version >/dev/null 2>&1; }

# get_wheels LIST FOLDER: downloads the wheels of a list in tools/cuda and merges them into one tree with bin/, include/,
# lib/ and lib64/, once.
get_wheels() {
  local lock
  [ ! -e "$2" ] || return 0
  mkdir -p "$(dirname "$2")"
  exec {lock}>"$2.lock"
  flock "$lock" # another ./dev may be downloading it
  [ ! -e "$2" ] || return 0
  has_pip || ! command -v dpkg-query >/dev/null || install_packages cuda >&2
  has_pip || fail "python3 with pip is needed to get $2 from PyPI" "install python3 and pip, and repeat the command"
  local machine part=$2.part wheel folder
  local -a platforms=()
  machine=$(uname -m)
  for wheel in manylinux_2_28 manylinux_2_27 manylinux2014 manylinux_2_17 manylinux2010 manylinux_2_12; do
    platforms+=(--platform "${wheel}_$machine")
  done
  rm -rf "$part"
  mkdir -p "$part/wheels" "$part/unpacked/nvidia" "$part/tree/lib"
  [ "$1" != toolkit-12.txt ] || get_nvcc_12 "$PWD/$part/unpacked/nvidia/nvcc"
  say "downloading $2 from PyPI ($1)"
  # The frontend's wheel is for one Python; it has the same headers as those for others.
  python3 -m pip download --quiet --no-deps --require-hashes --only-binary=:all: "${platforms[@]}" \
    --python-version 3.11 --implementation cp --abi cp311 --abi abi3 --abi none --dest "$part/wheels" \
    -r "tools/cuda/$1" >&2 ||
    fail "PyPI's wheels for $2 could not be downloaded" "$install_cuda"
  merge_wheels "$part" || fail "$2 could not be unpacked: is the disk full?" "free some GiB, and repeat the command"
  mv -T "$part/tree" "$2"
  rm -rf "$part"
}

# merge_wheels FOLDER: makes FOLDER/tree. `set -e` is off within `$(…)`, so each step is checked.
merge_wheels() {
  local wheel folder
  for wheel in "$1"/wheels/*.whl; do python3 -m zipfile -e "$wheel" "$1/unpacked" || return 1; done
  for folder in "$1"/unpacked/nvidia/* "$1/unpacked"; do
    for wheel in bin include lib nvvm; do
      [ ! -d "$folder/$wheel" ] || cp -rlf "$folder/$wheel" "$1/tree/" || return 1
    done
  done
  finish_tree "$1/tree"
}

# get_nvcc_12 FOLDER: gets into FOLDER what PyPI's wheels of CUDA 12 lack. A package of Debian 13 has nvcc and the
# programs that it calls; apt-get gets it from the mirror that this host uses, and it is not installed.
get_nvcc_12() {
  local apt=$1.apt mirror
  local -a options=(-qq -o "Dir::Etc::SourceList=$apt/sources.list" -o Dir::Etc::SourceParts=/dev/null
    -o "Dir::State::Lists=$apt/lists" -o "Dir::Cache=$apt" -o APT::Sandbox::User=root)
  mirror=$(grep -rhsE '^(deb |URIs:)' /etc/apt/sources.list /etc/apt/sources.list.d |
    grep -oE '[a-z]+://[^ ]*/debian/?( |$)' | sed -n '1s/ *$//p' || true)
  [ -n "$mirror" ] ||
    fail "PyPI has no nvcc of CUDA 12, and the sources of apt-get name no mirror of Debian" "$install_cuda"
  say "downloading nvcc of CUDA 12 from Debian 13 ($nvcc_12)"
  mkdir -p "$apt/lists/partial" "$apt/archives/partial" "$1/bin" "$1/lib" "$1/nvvm/bin"
  echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror trixie non-free" >"$apt/sources.list"
  { apt-get "${options[@]}" update && (cd "$apt" && apt-get "${options[@]}" download "$nvcc_12"); } >&2 ||
    fail "Debian's package $nvcc_12 could not be downloaded" "$install_cuda"
  { dpkg-deb -x "$apt"/*.deb "$apt" &&
    mv "$apt"/usr/bin/{cudafe++,fatbinary,nvlink} "$apt"/usr/lib/nvidia-cuda-toolkit/bin/{nvcc,crt} "$1/bin/" &&
    mv "$apt/usr/lib/nvidia-cuda-toolkit/bin/cicc" "$1/nvvm/bin/"; } ||
    fail "Debian's package $nvcc_12 could not be unpacked: is the disk full?" "free some GiB, and repeat the command"
  # Where nvcc looks for the rest: Debian's own file names folders of an installed package.
  cat >"$1/bin/nvcc.profile" <<'TEXT'
TOP = $(_HERE_)/..
NVVMIR_LIBRARY_DIR = $(TOP)/nvvm/libdevice
PATH += $(TOP)/nvvm/bin:$(_HERE_):
INCLUDES += "-I$(TOP)/include" $(_SPACE_)
LIBRARIES =+ $(_SPACE_) "-L$(TOP)/lib"
TEXT
  # CMake links two libraries when it tries the compiler. Troupe does not use them.
  printf '!<arch>\n' >"$1/lib/libcudadevrt.a"
  echo 'INPUT(-lcudart)' >"$1/lib/libcudart_static.a"
}

# Programs lose their mode in a wheel, and libraries have no name without a version.
finish_tree() {
  local library name
  find "$1/bin" "$1/nvvm/bin" -type f -exec chmod +x {} + 2>/dev/null || true
  ln -sfn lib "$1/lib64"
  for library in "$1"/lib/lib*.so.*; do
    [ -e "$library" ] || continue
    name=$(basename "$library")
    [ -e "$1/lib/${name%%.so.*}.so" ] || ln -s "$name" "$1/lib/${name%%.so.*}.so"
  done
}

# toolkit [MAJOR]: prints the folder of a toolkit, which is downloaded where none is there.
toolkit() {
  present_toolkit "${1:-}" && return
  case "${1:-13}" in
    13) get_wheels toolkit-13.txt build/cuda-toolkit ;;
    12) get_wheels toolkit-12.txt build/cuda-toolkit-12 ;;
  esac
  present_toolkit "${1:-}" || fail "the downloaded CUDA ${1:-13} does not work" "rm -r build/cuda-toolkit*, and repeat the command"
}

# Prints the folder with cudnn_frontend.h for a toolkit.
frontend_headers() {
  if [ -e "$1/include/cudnn_frontend.h" ]; then
    echo "$1/include"
    return
  fi
  get_wheels frontend.txt build/cuda-frontend
  echo "$PWD/build/cuda-frontend/include"
}

# offer_frontend_headers PRESET: gets the headers that the tests of cuDNN's plans need besides a toolkit
# that is there. A build that was configured without them is configured again.
offer_frontend_headers() {
  local home
  home=$(present_toolkit) || return 0
  say "found CUDA in $home: also compiles and tests the code for GPUs (docs/gpu.md#tests)"
  if ! (frontend_headers "$home") >/dev/null; then
    say "the tests of cuDNN's plans will be skipped, since they need the headers of its frontend"
  elif grep -qs '^CUDNN_FRONTEND_INCLUDE_DIR:.*NOTFOUND$' "build/$1/CMakeCache.txt"; then
    rm -f "build/$1/build.ninja"
  fi
}

# build_cuda MAJOR PRESET [-DSETTING=VALUE…]: as build, with libtroupe_cuda.so.
build_cuda() {
  local preset=$2 home headers cache
  local -a fresh=() settings=("${@:3}")
  cache=build/$preset/CMakeCache.txt
  install_packages build
  home=$(toolkit "$1")
  headers=$(frontend_headers "$home")
  say "configuring build/$preset with CUDA $(nvcc_version "$home") in $home"
  # What the cache knows of another toolkit would stay, or CMake would drop these settings with it.
  if [ -f "$cache" ] && [ "$(sed -n 's/^CMAKE_CUDA_COMPILER:[A-Z]*=//p' "$cache")" != "$home/bin/nvcc" ]; then
    say "it was configured without this toolkit: settings of earlier calls are lost, those of this call are used"
    fresh=(--fresh)
  fi
  cmake "${fresh[@]}" --preset "$preset" --log-level=WARNING -DTROUPE_CUDA=ON -DCMAKE_CUDA_COMPILER="$home/bin/nvcc" \
    -DCUDNN_FRONTEND_INCLUDE_DIR="$headers" "${settings[@]}" >&2
  build "$preset"
  say "built build/$preset/bin/troupe; next: build/$preset/bin/troupe doctor -r device=cuda"
}

cuda_architectures="70 75 80 86 89 90 100 110 120"

# The architectures of Troupe's list that a toolkit knows.
architectures_of() {
  local architecture names
  names=$("$1/bin/nvcc" --list-gpu-arch)
  for architecture in $cuda_architectures; do
    ! grep -q "compute_$architecture\b" <<<"$names" || echo "$architecture"
  done
}

# compile_by_nvcc HOME FILE [BASES [OPTION…]]: for all architectures, each from the PTX of the last of the bases (by
# default the architecture itself) that it can run; prints what ptxas says of each kernel.
compile_by_nvcc() {
  local home=$1 file=$2 bases=${3:-$cuda_architectures} architecture base from
  shift $(($# < 3 ? $# : 3))
  local -a codes=()
  for architecture in $(architectures_of "$home"); do
    from=$architecture
    for base in $bases; do [ "$base" -gt "$architecture" ] || from=$base; done
    codes+=(-gencode "arch=compute_$from,code=sm_$architecture")
  done
  "$home/bin/nvcc" --threads "$(jobs)" -std=c++20 -O3 -fmad=false -I"$PWD" -I"$home/include" "${codes[@]}" \
    -Xptxas -v,-warn-spills "$@" -fatbin "$file" -o /dev/null 2>&1
}

# The threads of the largest block that a file launches: the largest constant of that name in it, or launch.h's.
most_threads() {
  grep -hoE '_threads = [0-9]+' "$1" ops/cuda/launch.h | awk '{ if ($3 > most) most = $3 } END { print most }'
}

# judge_kernels FILE <ptxas's words: prints "kernels registers" of a file; fails with a reason for a spill, for an array
# in local memory, for a kernel whose registers do not suffice for its largest block, and without any kernel.
judge_kernels() {
  awk -v file="$1" -v threads="$(most_threads "$1")" '
    /Compiling entry function/ { match($0, /for .sm_[0-9]+/); where = substr($0, RSTART + 5, RLENGTH - 5); split($0, part, "\047"); name = part[2] }
    /Registers are spilled/ { next }  # told again, with the architecture
    /[1-9][0-9]* bytes stack frame/ { print file " (" where ", " name "): " $0; bad = 1 }
    /spill stores/ && !/ 0 bytes spill stores, 0 bytes spill loads/ { print file " (" where ", " name "): " $0; bad = 1 }
    /Used [0-9]+ registers/ {
      match($0, /Used [0-9]+/); used = substr($0, RSTART + 5, RLENGTH - 5) + 0; kernels++
      if (used > most) most = used
      if (used * threads > 65536) { print file " (" where ", " name "): " used " registers in blocks of " threads " threads"; bad = 1 }
    }
    /warning|error/ { print; bad = 1 }
    END { if (!kernels) print file ": nothing is said of any kernel"; if (bad || !kernels) exit 1; print kernels, most }'
}

# check_version HOME: every .cu by the nvcc of one toolkit.
check_version() {
  local file words result kernels=0 most=0 files=0 bad=0
  for file in ops/cuda/*.cu; do
    files=$((files + 1))
    if ! words=$(compile_by_nvcc "$1" "$file"); then
      printf '%s\n' "$words" >&2
      bad=1
    elif ! result=$(judge_kernels "$file" <<<"$words"); then
      printf '%s\n' "$result" >&2
      bad=1
    else
      kernels=$((kernels + ${result% *}))
      [ "${result#* }" -le "$most" ] || most=${result#* }
    fi
  done
  [ $bad -eq 0 ] || return 1
  say "CUDA $(nvcc_version "$1"): $files files, $kernels kernels for sm_$(architectures_of "$1" | paste -sd ,):" \
    "no spills, at most $most registers"
}

check_cuda() {
  local major home failed=0
  install_packages build
  for major in 13 12; do
    home=$(toolkit $major) || return 1
    check_version "$home" || failed=1
  done
  return $failed
}

# report_kernels HOME FILE REPORT: what ptxas says of a file, with the files that it includes in REPORT.d.
report_kernels() {
  jobs() { echo 1; }
  compile_by_nvcc "$1" "$PWD/$2" "70 75 90" -MD -MF "$3.d" -MT "$3" >"$3.part" || {
    cat "$3.part" >&2
    return 1
  }
  { echo "$2" && cat "$3.part"; } >"$3"
  rm "$3.part"
}

# judge_reports REPORT…: as check_version, of reports.
judge_reports() {
  local report result kernels=0 most=0 bad=0
  for report in "$@"; do
    if [ ! -f "$report" ]; then
      echo "$report is missing: build the target cuda_kernel_reports" >&2
      bad=1
    elif result=$(judge_kernels "$(head -n 1 "$report")" < <(tail -n +2 "$report")); then
      kernels=$((kernels + ${result% *}))
      [ "${result#* }" -le "$most" ] || most=${result#* }
    else
      printf '%s\n' "$result" >&2
      bad=1
    fi
  done
  echo "$kernels kernels, at most $most registers"
  [ $bad -eq 0 ] && [ "$kernels" -gt 0 ]
}

if [ "${BASH_SOURCE[0]}" = "$0" ]; then
  set -euo pipefail
  verb=$1
  shift
  case "$verb" in
    report) report_kernels "$@" ;;
    judge) judge_reports "$@" ;;
  esac
fi
