#!/usr/bin/env bash
# What tests and benchmarks use beside what uv.lock has: PyTorch, a terminal multiplexer and a browser; with the word `servers`,
# for `make fuzz`, a web server and Azurite, a server of Azure's protocol. Installed where the machine
# allows it; tests that miss one say so, and fail where TOKFMT_ALL_TESTS is set (.ci/run sets it), but for PyTorch.
set -uo pipefail
cd "$(dirname "$0")/.."
# The build for processors only (200 MB), from where pip is set up to look (PIP_FIND_LINKS). It is not in the lock: what
# a package index has under that version brings gigabytes for graphics cards, and goes by no such name.
torch="torch==2.13.0+cpu"
if .venv/bin/python -c 'import importlib.util, sys; sys.exit(sys.version_info[:2] != (3, 11) or importlib.util.find_spec("torch") is not None)'; then
  .venv/uv/bin/python -m pip --python .venv/bin/python install --quiet --disable-pip-version-check "$torch" >/dev/null 2>&1 \
    || echo "tests/system.sh: could not install $torch; tests of training are skipped" >&2
fi
missing=()
command -v tmux >/dev/null || missing+=(tmux)
command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null || missing+=(chromium fonts-dejavu-core)
if [ "${1:-}" = servers ]; then
  command -v nginx >/dev/null || [ -x /usr/sbin/nginx ] || missing+=(nginx)
  command -v npm >/dev/null || missing+=(nodejs npm)
fi
if [ ${#missing[@]} -eq 0 ]; then
  :
elif command -v apt-get >/dev/null; then
  root=()
  [ "$(id -u)" -eq 0 ] || root=(sudo -n)
  # Offline, systemd starts no server on port 80 of this machine.
  { "${root[@]}" apt-get update -qq && "${root[@]}" env DEBIAN_FRONTEND=noninteractive SYSTEMD_OFFLINE=1 apt-get install -qq -y --no-install-recommends "${missing[@]}"; } >/dev/null 2>&1 \
    || echo "tests/system.sh: could not install ${missing[*]}; tests that use them are skipped" >&2
else
  echo "tests/system.sh: install these for all tests: ${missing[*]}" >&2
fi
# 186 MB from npm: no registry of Python has a server of Azure's protocol.
azurite="azurite@3.35.0"
if [ "${1:-}" = servers ] && [ ! -e .venv/azurite/.done ]; then
  { npm install --prefix .venv/azurite --ignore-scripts --no-audit --no-fund "$azurite" && touch .venv/azurite/.done; } >/dev/null 2>&1 \
    || echo "tests/system.sh: could not install $azurite; tests of Azure are skipped" >&2
fi
exit 0
