#!/usr/bin/env bash
# What the tests use beside Python: a terminal multiplexer and a browser. Installed where the machine allows it; tests
# that miss one say so, and fail where TOKFMT_ALL_TESTS is set (.ci/run sets it).
set -uo pipefail
missing=()
command -v tmux >/dev/null || missing+=(tmux)
command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null || missing+=(chromium fonts-dejavu-core)
[ ${#missing[@]} -eq 0 ] && exit 0
command -v apt-get >/dev/null || { echo "tests/system.sh: install these for all tests: ${missing[*]}" >&2; exit 0; }
root=()
[ "$(id -u)" -eq 0 ] || root=(sudo -n)
{ "${root[@]}" apt-get update -qq && DEBIAN_FRONTEND=noninteractive "${root[@]}" apt-get install -qq -y --no-install-recommends "${missing[@]}"; } >/dev/null 2>&1 \
  || echo "tests/system.sh: could not install ${missing[*]}; tests that use them are skipped" >&2
exit 0
