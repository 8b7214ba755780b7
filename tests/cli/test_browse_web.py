"""`tokfmt browse --web`: a page in a real browser, who may read it, and what is left when it closes."""

import os
import secrets
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import forkserver
import pytest
from amount import FUZZ_ONLY
from browsers import CHROMIUM_FLAGS, chromium
from paths import CORPUS, FIXTURES, ROOT, TOKENIZER
from playwright.sync_api import sync_playwright

pytestmark = pytest.mark.slow

PACK = FIXTURES / "modalities" / "D_2byte_gpt2.pbin"


def until(what, patience=60.0):
    """The first answer that is not empty."""
    end = time.monotonic() + patience
    while not (found := what()):
        assert time.monotonic() < end, "did not happen in time"
        time.sleep(0.03)
    return found


def family(mark):
    """Processes whose environment has this mark: the server, and all that it started."""
    found = []
    for place in Path("/proc").iterdir():
        try:
            marked = place.name.isdigit() and f"TOKFMT_TEST={mark}\0".encode() in (place / "environ").read_bytes()
            if marked and (place / "stat").read_text().rpartition(")")[2].split()[0] != "Z":
                found.append(int(place.name))
        except OSError:
            continue
    return found


class Served:
    def __init__(self, process, url, mark):
        self.process, self.url, self.mark = process, url, mark

    @property
    def children(self):
        return [number for number in family(self.mark) if number != self.process.pid]


@contextmanager
def served(tmp_path, *words, port=0):
    mark = secrets.token_hex()
    env = {**os.environ, "TOKFMT_TEST": mark, "XDG_STATE_HOME": str(tmp_path)}
    command = [sys.executable, "-m", "tokfmt", "browse", *map(str, words), "--web", "--port", str(port)]
    process = subprocess.Popen(command, cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        line = process.stdout.readline()
        assert line.startswith("browse at http://127.0.0.1:"), (process.stderr.read(), process.wait(10))
        yield Served(process, line.split()[-1], mark)
    finally:
        for number in family(mark):
            os.kill(number, signal.SIGKILL)
        process.wait(10)
        process.stdout.close()
        process.stderr.close()


@pytest.fixture(scope="module")
def browser():
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=chromium(), args=CHROMIUM_FLAGS)
        yield started
        started.close()


class Visit:
    """A page, everything it asked for, everything that its terminal was sent."""

    def __init__(self, browser, url):
        self.page = browser.new_page(viewport={"width": 1200, "height": 700})
        self.asked, self.wrong, self.sent = [], [], ""
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.on("pageerror", lambda error: self.wrong.append(str(error)))
        self.page.on("console", lambda message: self.wrong.append(message.text) if message.type == "error" else None)
        self.page.on("websocket", self._listen)
        self.page.goto(url)

    def _listen(self, websocket):
        self.asked.append(websocket.url)
        websocket.on("framereceived", self._take)

    def _take(self, payload):
        self.sent += payload.decode("utf-8", "replace") if isinstance(payload, bytes) else payload

    def see(self, text):
        """Wait until the terminal is sent a text; what was sent behind it is there for the next."""

        def sent():
            self.page.wait_for_timeout(30)
            return text in self.sent

        until(sent)
        self.sent = self.sent.partition(text)[2]


@FUZZ_ONLY
def test_a_page_shows_the_list_and_takes_keys(browser, tmp_path):
    with served(tmp_path, CORPUS, "--tokenizer", TOKENIZER) as server:
        visit = Visit(browser, server.url)
        visit.see("begins with")
        assert len(until(lambda: server.children)) == 1
        visit.see("It isn")  # the fourth, when the tokenizer is there
        for _ in range(3):
            visit.page.keyboard.press("ArrowDown")
        visit.see("record 3")
        place = server.url.removesuffix("/").removeprefix("http://")
        assert all(url.partition("://")[2].startswith(place) for url in visit.asked), visit.asked
        assert {url.partition("://")[0] for url in visit.asked} == {"http", "ws"}
        assert visit.wrong == []
        picture = tmp_path / "page.png"
        visit.page.screenshot(path=picture)
        assert picture.stat().st_size > 20_000
        assert visit.page.evaluate("document.fonts.check(\"16px 'Roboto Mono'\")")

        visit.page.keyboard.press("q")
        visit.page.wait_for_selector("body.-closed .closed")
        until(lambda: not server.children)
        visit.sent = ""
        visit.page.click(".closed a")
        visit.see("begins with")
        visit.page.close()
        until(lambda: not server.children)
        assert server.process.poll() is None


@FUZZ_ONLY
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_server_that_is_stopped_takes_everything_with_it(browser, tmp_path, number):
    with served(tmp_path, PACK) as server:
        visit = Visit(browser, server.url)
        visit.see("begins with")
        started = server.children
        if number == signal.SIGTERM and sys.platform == "linux":
            os.kill(started[0], signal.SIGSTOP)  # deaf to everything but SIGKILL
        server.process.send_signal(number)
        assert server.process.wait(15) == 0
        until(lambda: not family(server.mark))
        assert "Traceback" not in server.process.stderr.read()
        visit.page.wait_for_selector("body.-closed")
        visit.page.close()


@FUZZ_ONLY
def test_a_server_that_is_killed_takes_everything_with_it(browser, tmp_path):
    with served(tmp_path, PACK) as server:
        visit = Visit(browser, server.url)
        visit.see("begins with")
        assert server.children
        server.process.kill()
        until(lambda: not family(server.mark))
        visit.page.close()


def ask(url, **headers):
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=10) as answer:
            return answer.status, dict(answer.headers)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, dict(error.headers)


@FUZZ_ONLY
def test_who_may_read(tmp_path):
    upgrade = {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    }
    with served(tmp_path, PACK) as server:
        home = server.url.rsplit("/", 2)[0]
        status, headers = ask(server.url)
        assert status == 200
        assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
        assert "Access-Control-Allow-Origin" not in headers
        assert ask(f"{home}/")[0] == 404
        assert ask(f"{home}/guess/")[0] == 404
        assert ask(f"{home}/guess/ws", **upgrade, Origin=home)[0] == 404
        assert ask(f"{home}/guess/static/js/textual.js")[0] == 404
        assert ask(f"{server.url}static/../../../etc/passwd")[0] in (403, 404)
        assert ask(server.url, Host="evil.example:80")[0] == 403
        assert ask(server.url, Host="192.168.0.7")[0] == 403
        assert ask(server.url, Host="[")[0] == 403
        assert ask(server.url, Host="localhost:9999")[0] == 200  # a tunnel
        assert ask(server.url, Host="[::1]:80")[0] == 200
        for origin in ("http://evil.example", "null", "https://127.0.0.1.evil.example", f"{home}0", "http://[", ""):
            assert ask(f"{server.url}ws", **upgrade, Origin=origin)[0] == 403, origin
        assert ask(f"{server.url}ws", **upgrade)[0] == 403
        assert ask(f"{home}/download/nothing")[0] == 404
        assert server.children == []


def test_nonsense_requests_neither_end_it_nor_fill_the_terminal(tmp_path):
    with served(tmp_path, PACK) as server:
        place = urlsplit(server.url)
        host = f"Host: {place.netloc}\r\n".encode()
        nonsense = [
            b"\x16\x03\x01 nonsense\r\n\r\n",
            b"GET / HTTP/9.9\r\n\r\n",
            b"GET " + b"a" * 100_000 + b" HTTP/1.1\r\n" + host + b"\r\n",
            b"GET /%ff/%00/ HTTP/1.1\r\n" + host + b"\r\n",
            b"GET / HTTP/1.1\r\nHost:\r\n\r\n",
            b"GET / HTTP/1.0\r\n\r\n",
            b"POST / HTTP/1.1\r\n" + host + b"Content-Length: -1\r\n\r\n",
            b"POST / HTTP/1.1\r\n" + host + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
            b"",
        ]
        idle = [socket.create_connection((place.hostname, place.port), timeout=60) for _ in nonsense * 10]
        try:
            for connection, request in zip(idle, nonsense * 10, strict=True):
                connection.sendall(request)
            assert ask(server.url)[0] == 200
            assert server.children == []
            server.process.send_signal(signal.SIGTERM)
            assert server.process.wait(15) == 0
        finally:
            for connection in idle:
                connection.close()
        assert server.process.stderr.read().splitlines() == ["Ctrl+C ends the server and every page"]


@FUZZ_ONLY
def test_a_page_of_the_web_cannot_read_it(browser, tmp_path):
    """A page that has got hold of the address cannot read it either."""
    with served(tmp_path, PACK) as server:
        page = browser.new_page()
        page.goto("data:text/html,<p>elsewhere")
        tried = page.evaluate(
            """async (url) => {
                const text = await fetch(url).then((answer) => answer.text()).catch(() => "refused");
                const socket = new WebSocket(url.replace("http", "ws") + "ws");
                const opened = await new Promise((tell) => {
                    socket.onopen = () => tell(true); socket.onerror = () => tell(false);
                });
                return [text, opened];
            }""",
            server.url,
        )
        assert tried == ["refused", False]
        assert server.children == []
        page.close()


def run(*words, **kwargs):
    command = [sys.executable, *kwargs.pop("python", ["-m", "tokfmt"]), "browse", *map(str, words)]
    return forkserver.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, **kwargs)


def test_invalid_options_are_refused_before_serving(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = run(PACK, "--web", "--port", port)
        assert result.returncode == 4
        assert result.stderr == (
            f"tokfmt: error: 127.0.0.1:{port}: the port is in use. Choose another with --port N, or any free one with --port 0\n"
        )
    for words, code in (
        ([tmp_path / "absent", "--web", "--port", 0], 3),
        ([PACK, tmp_path / "absent", "--diff", "--web", "--port", 0], 3),
        ([PACK, "--web", "--tokenizer", tmp_path / "none", "--port", 0], 2),
        ([PACK, "--port", 7], 2),
        ([PACK, "--web", "--host", "no.such.host.invalid"], 4),
    ):
        result = run(*words)
        assert result.returncode == code, result.stderr
        assert result.stderr.splitlines()[-1].startswith("tokfmt: error: ")
        assert "Traceback" not in result.stderr


def test_without_textual_serve():
    code = "import sys; sys.modules['textual_serve'] = None; from tokfmt.cli.main import run; run(sys.argv[1:])"
    result = run(PACK, "--web", python=["-c", code])
    assert result.returncode == 2
    assert "pip install textual-serve" in result.stderr


def test_other_machines_are_admitted_only_with_host_and_a_warning(tmp_path):
    from tokfmt.browser.web import is_local

    assert [is_local(host) for host in ("127.0.0.1", "::1", "localhost", "127.9.9.9", "0.0.0.0", "::", "10.0.0.1")] == [
        True, True, True, True, False, False, False,
    ]  # fmt: skip
    env = {**os.environ, "XDG_STATE_HOME": str(tmp_path)}
    words = [sys.executable, "-m", "tokfmt", "browse", str(PACK), "--web", "--port", "0", "--host", "0.0.0.0"]
    with forkserver.Popen(
        words, cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            address = urlsplit(process.stdout.readline().split()[-1])
            url = f"http://127.0.0.1:{address.port}{address.path}"
            assert ask(url, Host=f"{socket.gethostname()}:{address.port}")[0] == 200
            assert ask(url, Host=f"127.0.0.1:{address.port}")[0] == 200
            assert ask(url, Host="10.0.0.1")[0] == ask(url, Host=f"{socket.gethostname()}.evil.example")[0] == 403
            process.send_signal(signal.SIGHUP)
            assert "any machine that knows the address can read the dataset" in process.stderr.read()
            assert process.wait(10) == 0
        finally:
            process.kill()


def test_assets_of_the_page_are_packaged():
    from importlib.resources import files

    home = files("tokfmt.browser.web")
    for name in ("page.html", "page.css", "page.js"):
        text = home.joinpath(name).read_text()
        assert "http:" not in text.replace("http://www.w3.org", "")
        assert "https://" not in text
