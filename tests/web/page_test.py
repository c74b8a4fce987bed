"""The dashboard's page by itself: its types are right, its unit tests pass, it is as small as promised, and it writes no markup.
Takes the folder of the page (web/), and the folder in which the build has its packages from npm."""
import gzip
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

MOST_BYTES = 200_000  # of the page, compressed
MOST_LINES = 500

source, built = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])


def node(folder, *arguments):
    done = subprocess.run(["node", *arguments], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0, done.stdout
    return done.stdout


def types_and_unit_tests():
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        for name in ("src", "tests"):
            shutil.copytree(source / name, folder / name)
        for name in ("package.json", "tsconfig.json", "build.mjs"):
            shutil.copy(source / name, folder / name)
        (folder / "node_modules").symlink_to((built / "node_modules").resolve())
        node(folder, "node_modules/typescript/bin/tsc", "--noEmit")
        node(folder, "build.mjs", "--tests")
        tests = sorted(path.name for path in (folder / "dist-tests").glob("*_test.mjs"))
        assert len(tests) == len(list((source / "tests").glob("*_test.ts"))), tests
        report = node(folder, "--test", "--test-reporter=tap", *(f"dist-tests/{name}" for name in tests))
        assert re.search(r"# pass [1-9]\d*\n", report) and "# fail 0\n" in report, report
        node(folder, "build.mjs")
        size = sum(len(gzip.compress(path.read_bytes(), 9)) for path in (folder / "dist").iterdir())
        assert {path.name for path in (folder / "dist").iterdir()} == {"index.html", "app.js", "app.css"}
        assert size < MOST_BYTES, size
        page = (folder / "dist/index.html").read_text()
        outside = [link for link in re.findall(r'(?:src|href)="([^"]*)"', page) if not link.startswith("data:") and "/" in link]
        assert not outside, outside
        assert "@import" not in (folder / "dist/app.css").read_text() and "url(" not in (folder / "dist/app.css").read_text()


def sources():
    for path in sorted(source.glob("src/**/*.ts")) + sorted(source.glob("tests/*.ts")):
        text = path.read_text()
        assert text.count("\n") < MOST_LINES, f"{path} has more than {MOST_LINES} lines"
        if "src" in path.parts:
            found = re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|https?://(?!www\.w3\.org/2000/svg)", text)
            assert not found, f"{path}: {found.group(0)}"


sources()
types_and_unit_tests()
