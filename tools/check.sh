# shellcheck shell=bash
# The steps of `./dev check`. ./dev sources this file and defines say, fail, jobs, build, run_tests
# and cpp_files. A failing step prints the reason and returns non-zero.

readonly check_steps="format shell docs includes headers odr tidy sanitizers fuzz sizes"
readonly named_steps="cuda"  # run by name only; in tools/cuda.sh
changed_only=false

# The C++ files to check: all, or with --changed those that differ from the main branch.
checked_files() {
  if ! $changed_only; then
    cpp_files
    return
  fi
  local base
  base=$(git merge-base HEAD origin/main 2>/dev/null || git rev-parse HEAD)
  {
    git diff --name-only --diff-filter=d "$base" -- '*.h' '*.cpp' '*.cu'
    git ls-files -o --exclude-standard -- '*.h' '*.cpp' '*.cu'
  } | sort -u
}

check_format() { checked_files | xargs -r clang-format --dry-run --Werror; }

check_shell() {
  git ls-files -co --exclude-standard | grep -v '\.md$' | xargs grep -lE '^#!.*(bash|sh)$|^# shellcheck shell' |
    xargs -r shellcheck -x
}

# Links, paths and quoted code of the documents exist in the tree.
check_docs() { tools/check_docs.py; }

# A layer may include itself and the layers below it.
check_includes() {
  local bad=0
  refuse() {
    if grep -rnE "#include [<\"](troupe/)?($2)/" "$1" --include='*.h' --include='*.cpp' --include='*.cu'; then bad=1; fi
  }
  refuse runtime 'ops|actors|apps'
  refuse ops 'actors|apps'
  refuse actors 'apps'
  return $bad
}

# Compiles every header alone. Those of control messages and of ONNX need generated ones, those of CUDA a toolkit's.
check_headers() {
  local -a hdf5
  local cuda=${CUDA_HOME:-/usr/local/cuda}/include unread=/cuda/
  [ ! -f "$cuda/cuda_runtime_api.h" ] || unread='^$'
  read -r -a hdf5 < <(pkg-config --cflags-only-I hdf5-serial || pkg-config --cflags-only-I hdf5)
  mkdir -p build/headers
  protoc --cpp_out=build/headers runtime/control/wire.proto ops/graph/onnx.proto || return 1
  cpp_files | { grep -E '\.h$' || true; } | { grep -v "$unread" || true; } |
    xargs -r -P "$(jobs)" -I '{}' g++ -std=c++20 -I. -isystem build/headers -isystem "$cuda" "${hdf5[@]}" \
      -DTROUPE_CUDA_EMULATOR \
      -DTROUPE_SOURCE_DIR='"."' -fsyntax-only -Wall -Wextra \
      -Wno-missing-field-initializers -include '{}' -x c++ /dev/null
}

# Only link-time checks find two types of one name in different files. Without optimisation their
# functions are not inlined, so a short run would also crash on a mismatch.
check_odr() {
  local output code=0
  build odr troupe || return 1
  output=$(mktemp -d)
  build/odr/bin/troupe train recipes/demo.yaml -r data.name=synthetic -r data.count=512 \
    -r train.steps=2 -o "$output" >"$output/screen" || code=$?
  [ $code -eq 0 ] || cat "$output/screen"
  rm -r "$output"
  return $code
}

# The largest files first, so that all jobs finish together. Two folders are added for what the release
# preset does not build: examples include installed headers, fuzz targets generated ones. clang does not read
# headers that g++ has precompiled.
check_tidy() {
  build release || return 1
  mkdir -p build/tidy && ln -sfn ../.. build/tidy/troupe
  sed -E 's/ -Winvalid-pch| -include [^ ]*cmake_pch.hxx//g' build/release/compile_commands.json >build/tidy/compile_commands.json
  # clang-tidy 14 has no std::source_location, which the code for GPUs uses.
  checked_files | { grep -E '\.cpp$' || true; } | { grep -v '/cuda/' || true; } | xargs -r wc -l | sort -rn |
    awk '$2 != "total" { print $2 }' |
    xargs -r -P "$(jobs)" -n 1 clang-tidy -p build/tidy --quiet "--extra-arg=-I$PWD/build/tidy" \
      "--extra-arg=-isystem$PWD/build/release/runtime/generated" 2>&1 |
    sed '/^[0-9]* warnings* generated\.$/d'
}

check_sanitizers() {
  run_tests asan && run_tests tsan
}

# Runs each fuzz target for seconds; libFuzzer comes with clang.
check_fuzz() {
  command -v clang++ >/dev/null || {
    say "no clang++: fuzzing is skipped"
    return 0
  }
  build fuzz fuzz_targets || return 1
  ctest --test-dir build/fuzz -L '^fuzz$' -j "$(jobs)" --no-tests=error --output-on-failure
}

check_sizes() {
  say "the largest files (lines)"
  cpp_files | xargs -r wc -l | grep -v ' total$' | sort -rn | sed -n '1,8p'
}

check() {
  local -a steps=() failed=()
  local argument step
  for argument in "$@"; do
    case "$argument" in
      --changed) changed_only=true ;;
      *)
        case " $check_steps $named_steps " in *" $argument "*) ;; *)
          fail "./dev check has no step '$argument'" "one of: $check_steps $named_steps"
          ;;
        esac
        steps+=("$argument")
        ;;
    esac
  done
  [ ${#steps[@]} -gt 0 ] || read -r -a steps <<<"$check_steps"
  for step in "${steps[@]}"; do
    say "check $step"
    "check_$step" || failed+=("$step")
  done
  [ ${#failed[@]} -eq 0 ] || fail "failed: ${failed[*]}" "./dev check ${failed[*]} repeats them; ./dev format fixes the layout"
  say "all checks passed: ${steps[*]}"
}
